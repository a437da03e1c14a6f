"""What a model's makers ask of a request, as a table of model families.

A chat request that one host takes is refused by the next, or worse: accepted, and
the model goes silent.  Every such difference is a column here and nowhere else;
the first row decides that is of the model's family (`repair.model_family`) and whose
pattern is found in its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..repair.model_family import families_of

_ANY_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""OpenAI's rule for the names of functions, which other hosts repeat."""
_KIMI_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{2,63}")
"""Moonshot's rule (Kimi API reference, tools): a name outside of it is a 400."""


@dataclass(frozen=True, slots=True)
class Family:
    """One row: how a model family wants its requests."""

    name: str
    family: str
    """See `families_of`."""
    models: re.Pattern[str] = re.compile("")
    """Searched in the lower-cased model name."""
    call_ids: Literal["kept", "conversation", "message"] = "kept"
    """`conversation`: ``functions.<name>:<n>``, n counting all calls from 0 (K2 reads
    the name out of the id and goes silent on foreign ones); `message`: ``<name>:<n>``
    counting within one assistant message (K3)."""
    reasoning: Literal["calls", "always", "never"] = "calls"
    """Which assistant messages carry ``reasoning_content``.  `always`: each whose
    reasoning is known, and each with calls, empty if need be (Kimi answers 400
    "reasoning_content is missing in assistant tool call message").  `calls`: those with
    calls whose reasoning is known: there DeepSeek, GLM, MiniMax and Qwen want it, while
    on plain answers their templates drop it and DeepSeek R1 answered 400.  `never`:
    OpenAI's own, which refuse the field."""
    forced_tool_choice: bool = True
    """Whether ``tool_choice`` may be ``required`` or name a function."""
    sampling: bool = True
    """Whether temperature, top_p and the penalties may differ from the default."""
    tool_name: re.Pattern[str] = _ANY_TOOL_NAME
    """What a function's name must match as a whole."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Every chat host and engine knows ``max_tokens``; only OpenAI's reasoning models
    refuse it, and not every host knows its successor."""
    efforts: tuple[str, ...] = ()
    """The values of ``reasoning_effort`` that the family knows, in rising order; empty if
    any is sent as it is."""
    thinking_off: Mapping[str, Any] | None = None
    """The fields that turn thinking off, sent in the place of the effort ``none``.  None if
    that is an effort like the others, or thinking cannot be turned off."""
    system_messages: Literal["anywhere", "start"] = "anywhere"
    """Where a system message may stand.  `start`: one, as the first message, or the host
    refuses the request (Qwen's template: "System message must be at the beginning.";
    MiniMax's API, for a second one too: "invalid chat setting (2013)")."""

    def effort(self, asked: str) -> str:
        """The effort nearest to the one asked for that the family knows, of two the greater.
        One that nobody knows is left for the host to judge."""
        if asked in self.efforts or not self.efforts or asked not in _SCALE:
            return asked
        place = _SCALE.index(asked)
        return min(reversed(self.efforts), key=lambda known: abs(_SCALE.index(known) - place))


_SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All efforts of the Responses API, in rising order."""
_LOW_TO_HIGH = ("low", "medium", "high")
"""What Moonshot's own client sends to K2 models, and all that gpt-oss takes."""


_FAMILIES: tuple[Family, ...] = (
    Family(
        "kimi-k3",
        "kimi",
        re.compile(r"k3(?![0-9])"),
        call_ids="message",
        reasoning="always",
        forced_tool_choice=False,
        sampling=False,
        tool_name=_KIMI_TOOL_NAME,
        # It always thinks (Kimi API guide, "use-thinking-effort").
        efforts=("low", "high", "max"),
    ),
    Family(
        "kimi-k2.5",  # and k2.6; "p" for "." at Fireworks
        "kimi",
        re.compile(r"k2[.p_-]?[56](?![0-9])"),
        call_ids="conversation",
        reasoning="always",
        forced_tool_choice=False,
        sampling=False,
        tool_name=_KIMI_TOOL_NAME,
        efforts=_LOW_TO_HIGH,
        # Kimi API reference, "models-overview": "Accepts enabled or disabled".
        thinking_off={"thinking": {"type": "disabled"}},
    ),
    Family(
        "kimi-k2.7",  # and later
        "kimi",
        re.compile(r"k2[.p_-]?[7-9](?![0-9])"),
        call_ids="conversation",
        reasoning="always",
        forced_tool_choice=False,
        sampling=False,
        tool_name=_KIMI_TOOL_NAME,
        # It always thinks: "invalid thinking: only type=enabled is allowed for this model".
        efforts=_LOW_TO_HIGH,
    ),
    Family(
        "kimi-k2-thinking",
        "kimi",
        re.compile(r"thinking"),
        call_ids="conversation",
        reasoning="always",
        forced_tool_choice=False,
        tool_name=_KIMI_TOOL_NAME,
        efforts=_LOW_TO_HIGH,
    ),
    Family(
        "kimi-k2",  # instruct, 0711, 0905, turbo: no thinking
        "kimi",
        re.compile(r"k2|moonshot-v1"),
        call_ids="conversation",
        reasoning="always",
        tool_name=_KIMI_TOOL_NAME,
        thinking_off={},
    ),
    Family(
        "kimi",  # kimi-latest, kimi-for-coding and what comes: as strict as the strictest
        "kimi",
        call_ids="conversation",
        reasoning="always",
        forced_tool_choice=False,
        sampling=False,
        tool_name=_KIMI_TOOL_NAME,
        efforts=_LOW_TO_HIGH,
    ),
    Family(
        "minimax",
        "minimax",
        system_messages="start",
    ),
    Family(
        "qwen",
        "qwen",
        system_messages="start",
    ),
    Family(
        "gpt-oss",
        "gpt-oss",
        efforts=_LOW_TO_HIGH,  # all that its format Harmony has
    ),
    Family(
        "openai",
        "openai",
        re.compile(r"(?:^|/)(?:gpt-[5-9]|o[1-9](?![0-9a-z]))"),
        reasoning="never",
        token_limit="max_completion_tokens",
    ),
)
_OTHER = Family("other", "")


def family_of(model: str) -> Family:
    """The row of a model name; the last, `other`, for a model of no known family."""
    name, families = model.lower(), families_of(model)
    found = (row for row in _FAMILIES if row.family in families and row.models.search(name))
    return next(found, _OTHER)
