"""What a model's hosts require of a request, as a table of model families.

A chat request that one host accepts is refused by the next, or worse: accepted, and the model
goes silent.  Every such difference is a column here and nowhere else.  A model's row is the first
of its family (`repair.model_family`) whose pattern is found in its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..repair.model_family import families_of
from .sent_call_ids import CallIdForm

_ANY_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""OpenAI's rule for the names of functions, which other hosts repeat."""
_KIMI_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{2,63}")
"""Moonshot's rule (Kimi API reference, tools): a name outside of it is a 400."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """What the hosts of a family answer 400 to, and `cure` puts right."""

    missing_reasoning: str | None = None
    """What is sent for unknown reasoning to hosts that refuse an assistant's message with calls
    without its reasoning; None for others."""
    schemas: bool = False
    """Schemas outside Moonshot's subset (`cure.moonshot_schema`)."""
    empty_messages: bool = False
    """Messages and parts without text."""
    null_messages: bool = False
    """An assistant's message without calls whose content is null."""
    broken_history: bool = False
    """Calls without outputs, outputs without calls, and calls without ids or arguments.  Arguments
    that are not the text of a JSON object are refused by all (vLLM)."""
    media_of_tools: bool = False
    """Images and files in a tool's message, which few chat hosts take: they go to a user's."""
    developer_role: bool = False
    """The role ``developer``, or worse: Kimi's templates have no header for it, or drop it."""
    tool_names: bool = False
    """Names of functions outside `Family.tool_name`."""
    thinking_types: tuple[str, ...] = ()
    """The types of ``thinking`` in a Messages request that are taken, if not all are: others are
    sent as the first."""
    web_search: bool = False
    """Anthropic's search of the web beside functions, in a Messages request."""


_MOONSHOT = Refusals(
    # It is accepted in every report, an empty string not: pi#4178.
    missing_reasoning=" ",
    schemas=True,
    empty_messages=True,
    broken_history=True,
    developer_role=True,
    tool_names=True,
    thinking_types=("enabled",),
)
_DEEPSEEK = Refusals(
    missing_reasoning="",
    null_messages=True,
    broken_history=True,
    developer_role=True,
    tool_names=True,
)
_FIXED = {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""What Kimi K2.5 and later take (Kimi API reference, "models-overview": "Cannot be modified")."""
_TEMPERATURE_UNTHINKING = 0.6
"""What they take of it with thinking off ("only 0.6 is allowed for this model")."""
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Family:
    """One row: how a model family wants its requests."""

    name: str
    family: str
    """See `families_of`."""
    models: re.Pattern[str] = re.compile("")
    """Searched in the lower-cased model name."""
    call_ids: CallIdForm = "kept"
    """`conversation`: K2 reads the name out of the id and goes silent on foreign ones; `message`:
    so K3 counts, and takes foreign ones from chat clients; `nine`: "must be a-z, A-Z, 0-9, with a
    length of 9" (Mistral's API)."""
    renumbers: bool = False
    """Whether all ids of that form are made anew (`bridged`)."""
    reasoning: Literal["calls", "known", "all", "never"] = "calls"
    """Which assistant messages carry ``reasoning_content`` if it is known, beside those that are
    refused without it (`Refusals.missing_reasoning`).  `known`: each.  `all`: each, and every
    message after the first that has it (DeepSeek V4: "must be passed back").  `calls`: messages
    with calls: there GLM, MiniMax and Qwen want it, while on plain answers their templates drop it
    and DeepSeek R1 answered 400.  `never`: OpenAI's own, which refuse the field."""
    refuses: Refusals = Refusals()
    forced_tool_choice: bool = True
    """Whether ``tool_choice`` may be ``required`` or name a function."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    """The sampling parameters that may have one value only."""
    tool_name: re.Pattern[str] = _ANY_TOOL_NAME
    """What a function's name must match as a whole."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Every chat host and engine knows ``max_tokens``; only OpenAI's reasoning models
    refuse it, and not every host knows its successor."""
    efforts: tuple[str, ...] = ()
    """The values of ``reasoning_effort`` that the family knows, in rising order; empty if
    any is sent as it is."""
    highest_effort: str = "high"
    """What ``xhigh`` and ``max``, of which Claude Code's users choose, are sent as where any effort
    may be sent: few hosts know these."""
    thinking_off: Mapping[str, Mapping[str, Any]] | None = None
    """The fields that turn thinking off, sent in the place of the effort ``none``.  None if
    that is an effort like the others, or thinking cannot be turned off."""
    system_messages: Literal["anywhere", "start"] = "anywhere"
    """Where a system message may stand.  `start`: one, as the first message, or the host
    refuses the request (Qwen's template: "System message must be at the beginning.";
    MiniMax's API, for a second one too: "invalid chat setting (2013)")."""
    alternates: bool = False
    """Whether the assistant must speak between a tool, or the user, and the user (Mistral's
    templates, and its API: "Unexpected role 'user' after role 'tool'")."""
    reads_images: bool = True
    """Whether an image may be sent.  It stays in the history, and would be refused in each turn
    (DeepSeek: "unknown variant `image_url`")."""
    prefill: str = ""
    """The member of the last message by which the assistant continues it; "" if there is none."""

    @property
    def is_strict(self) -> bool:
        """Whether there is anything in a request that its hosts refuse."""
        limits = self.sampling or self.system_messages == "start" or not self.forced_tool_choice
        return bool(limits) or self.alternates or self.refuses != Refusals()

    @property
    def bridged(self) -> Family:
        """The row for a request that was of another API: its history is made whole whatever the
        host.  Its tools have the names that are sent (`request.toolbox`), so the reply's names
        need not be changed back."""
        refuses = replace(self.refuses, broken_history=True, media_of_tools=True, tool_names=False)
        return replace(self, refuses=refuses, renumbers=True)

    def accepts(self, name: str, value: object, *, thinks: bool) -> bool:
        """Whether a sampling parameter may have this value; null is an absent field."""
        if value is None or name not in self.sampling:
            return True
        fixed = self.sampling[name] if thinks or name != "temperature" else _TEMPERATURE_UNTHINKING
        return type(value) in (int, float) and value == fixed

    def sent_tool_name(self, name: str) -> str:
        """The name that a tool of this name is sent with.

        What would be refused (characters, length) is replaced, and a hash of the whole name
        appended, so that different names stay different.
        """
        if self.tool_name.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        clean = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
        # The end is kept: the function's own name is there.
        stem = clean[-(_LONGEST_NAME - len(digest) - 2) :]
        return f"{stem}_{digest}" if stem[:1].isalpha() else f"_{stem}_{digest}"

    def thinks(self, request: Mapping[str, Any]) -> bool:
        """Whether the model thinks when it is asked so.  What turns that off may say more."""
        given = [(request.get(name), off) for name, off in (self.thinking_off or {}).items()]
        is_off = all(isinstance(said, dict) and off.items() <= said.items() for said, off in given)
        return self.thinking_off is None or not is_off

    def effort(self, asked: str) -> str:
        """The family's effort nearest to the one asked for, of two the greater.  An effort that
        nobody knows is left for the host to judge."""
        rank = _rank(asked)
        if asked in self.efforts or not self.efforts or rank is None:
            return asked
        return min(reversed(self.efforts), key=lambda known: abs(_SCALE.index(known) - rank))


_SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All efforts of the Responses API, in rising order."""


def _rank(effort: str) -> float | None:
    """The place of an effort on the scale.  A number is a place, or a percentage."""
    if effort in _SCALE:
        return _SCALE.index(effort)
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,9})?", effort):
        return None
    number, last = float(effort), len(_SCALE) - 1
    return number if number <= last else min(number, 100) * last / 100


_LOW_TO_HIGH = ("low", "medium", "high")
"""What Moonshot's own client sends to K2 models, and all that gpt-oss takes."""
_KIMI = Family(
    "kimi",  # kimi-latest, kimi-for-coding, future names: as strict as the strictest
    "kimi",
    call_ids="conversation",
    reasoning="known",
    refuses=_MOONSHOT,
    forced_tool_choice=False,
    sampling=_FIXED,
    tool_name=_KIMI_TOOL_NAME,
    efforts=_LOW_TO_HIGH,
    prefill="partial",
)
_FAMILIES: tuple[Family, ...] = (
    replace(
        _KIMI,
        name="kimi-k3",
        models=re.compile(r"k3(?![0-9])"),
        call_ids="message",
        # It always thinks (Kimi API guide, "use-thinking-effort").
        efforts=("low", "high", "max"),
    ),
    replace(
        _KIMI,
        name="kimi-k2.5",  # and k2.6; "p" for "." at Fireworks
        models=re.compile(r"k2[.p_-]?[56](?![0-9])"),
        # Kimi API reference, "models-overview": "Accepts enabled or disabled".
        refuses=replace(_MOONSHOT, thinking_types=("enabled", "disabled")),
        thinking_off={"thinking": {"type": "disabled"}},
    ),
    replace(
        _KIMI,
        name="kimi-k2.7",  # and later
        # It always thinks: "invalid thinking: only type=enabled is allowed for this model".
        models=re.compile(r"k2[.p_-]?[7-9](?![0-9])"),
    ),
    replace(_KIMI, name="kimi-k2-thinking", models=re.compile(r"thinking"), sampling={}),
    replace(
        _KIMI,
        name="kimi-k2",  # instruct, 0711, 0905, turbo: no thinking
        models=re.compile(r"k2|moonshot-v1"),
        refuses=replace(_MOONSHOT, thinking_types=()),
        forced_tool_choice=True,
        sampling={},
        efforts=(),
        thinking_off={},
    ),
    _KIMI,
    Family("minimax", "minimax", system_messages="start"),
    Family("glm-v", "glm", re.compile(r"[0-9]v"), refuses=Refusals(web_search=True)),
    Family("glm", "glm", refuses=Refusals(web_search=True), reads_images=False),
    Family(
        "mistral",
        "mistral",
        call_ids="nine",
        # "Extra inputs are not permitted"
        reasoning="never",
        alternates=True,
        prefill="prefix",
    ),
    Family(
        "qwen",
        "qwen",
        # Alibaba's host: "developer is not one of ['system', 'assistant', …]".
        refuses=Refusals(developer_role=True),
        system_messages="start",
    ),
    Family(
        "deepseek",  # V3.2, V4, and the names without a number
        "deepseek",
        re.compile(r"^(?!.*(?:r1|v2|v3(?![.p_-]?[2-9])|coder|distill|vl|ocr))"),
        reasoning="all",
        refuses=_DEEPSEEK,
        # "Thinking mode does not support this tool_choice": it thinks unless that is turned off.
        forced_tool_choice=False,
        highest_effort="max",
        thinking_off={"thinking": {"type": "disabled"}},
        reads_images=False,
    ),
    # All that its format Harmony has.
    Family("gpt-oss", "gpt-oss", efforts=_LOW_TO_HIGH, reads_images=False),
    Family(
        "openai",
        "openai",
        re.compile(r"(?:^|/)(?:gpt-[5-9]|o[1-9](?![0-9a-z]))"),
        reasoning="never",
        token_limit="max_completion_tokens",
        highest_effort="xhigh",
    ),
)
_OTHER = Family("other", "")


def family_of(model: str) -> Family:
    """The row of a model name; the last, `other`, for a model of no known family."""
    name, families = model.lower(), families_of(model)
    rows = (row for row in _FAMILIES if row.family in families and row.models.search(name))
    return next(rows, _OTHER)
