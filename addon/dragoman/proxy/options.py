"""The user's options: declared, checked, and frozen into one record.

A flow uses the settings in force when its response headers arrive, to its end.  All options are
strings to mitmproxy: what it cannot convert to an option's type it raises in a task that nobody
awaits, and the proxy then runs without this script. `take_over` checks what was given before that
happens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, cast

from mitmproxy import exceptions, flowfilter, http
from mitmproxy.addonmanager import Loader
from mitmproxy.utils import human

from ..bridge.responses.dialects import DIALECTS
from ..repair.formats import NAMES, FormatChoice
from ..repair.pending import Policy

logger = logging.getLogger(__name__)

MIN_HEARTBEAT, MAX_HEARTBEAT = 0.1, 3600
FlowTest = Callable[[http.HTTPFlow], bool]

_CHOICES = {
    "dragoman_kimi_text": ("content", "field"),
    "dragoman_finish_reason": ("tool_calls", "keep"),
    "dragoman_dialect": ("auto", *DIALECTS),
    "dragoman_unsupported_tools": ("drop", "error"),
}
_ON, _EVERY, _NEVER = "auto, or to ~all for every flow", "~all, or to auto", "off"
_INSTEAD = {
    **dict.fromkeys(("true", "yes", "on", "1"), _ON),
    "all": _EVERY,
    **dict.fromkeys(("none", "false", "no", "0"), _NEVER),
}
"""Words that as a flow filter would match addresses, which nobody means."""

_FORMATS = ", ".join(NAMES)

_OPTIONS = (
    (
        "dragoman_repair",
        "auto",
        "Which responses to repair: a flow filter, 'auto' for every reply of Chat Completions or "
        "the Responses API, or 'off'.",
    ),
    (
        "dragoman_formats",
        "auto",
        "Formats of leaked tool calls that are looked for: 'auto' for Kimi's and those of the "
        "model's family, or for all if that is not known; 'all'; or names joined by commas, of "
        f"{_FORMATS}.",
    ),
    (
        "dragoman_kimi_text",
        "content",
        "Where text around a tool call section goes: 'content', or the 'field' it came in.",
    ),
    (
        "dragoman_finish_reason",
        "tool_calls",
        "What becomes of finish_reason 'stop', or another end that is no limit, on a turn with "
        "repaired calls: 'tool_calls' or 'keep'.",
    ),
    (
        "dragoman_bridge",
        "auto",
        "Which requests to .../responses to bridge to Chat Completions: a flow filter, 'auto' "
        "for hosts known or found to speak only that, '~all' for a reverse proxy, or 'off'.",
    ),
    (
        "dragoman_cure",
        "auto",
        "Which chat completions requests to make acceptable to their hosts: a flow filter, 'auto' "
        "for all to models whose hosts are known to refuse some, or 'off'.",
    ),
    (
        "dragoman_dialect",
        "auto",
        "The dialect of bridged streams: 'auto' (codex for Codex, else openai), 'openai', "
        "'codex', 'openresponses' or 'guide'. A request header x-dragoman-dialect overrides it.",
    ),
    (
        "dragoman_unsupported_tools",
        "drop",
        "Tools that no chat upstream can serve: 'drop' them (the log says so), or answer with an "
        "'error'.",
    ),
    (
        "dragoman_heartbeat",
        "5",
        "Seconds of silence after which a client that waits for a stream is sent something; 0: "
        "never.",
    ),
    (
        "dragoman_store",
        "",
        "Where to keep responses for previous_response_id, and reasoning that chat hosts want "
        "back: a SQLite file (default: dragoman.sqlite3 in mitmproxy's confdir), 'redis://...', "
        "'memory', or 'off'.",
    ),
    (
        "dragoman_store_days",
        "30",
        "Days for which a stored response is kept after it was last used.",
    ),
    (
        "dragoman_store_max",
        "1g",
        "How large a store may become. When it is full, the oldest responses go of the owner who "
        "keeps another, if that one has more than an equal share, else of the owner who has the "
        "most. Redis has a limit of its own.",
    ),
    (
        "dragoman_keep",
        "8m",
        "How much to keep, to be looked at, of what an upstream sent in a flow, and as much of "
        "what the client received: a size such as '8m'. Of more, the first and the last half.",
    ),
    (
        "dragoman_metrics",
        "0",
        "A port of 127.0.0.1 at which Prometheus finds the figures; 0: none. Needs the package "
        "prometheus-client in mitmproxy's environment.",
    ),
)

_DEFAULTS = {name: default for name, default, _ in _OPTIONS}


def declare(loader: Loader) -> None:
    """Make the options known to mitmproxy."""
    for name, default, text in _OPTIONS:
        loader.add_option(name, str, default, text, choices=_CHOICES.get(name))


def take_over(deferred: dict[str, Any]) -> None:
    """Convert mitmproxy's `deferred` options, those given before this script was loaded, to text.
    An invalid one is removed, with an error in the log, with which mitmproxy does not start; an
    unknown name gets a warning."""
    known = [name for name, *_ in _OPTIONS]
    for name, given in list(deferred.items()):
        if name in known:
            try:
                deferred[name] = _as_text(name, given)
            except exceptions.OptionsError as error:
                del deferred[name]
                logger.error("%s", error)
        elif name.lower().replace("-", "_").startswith("dragoman"):
            nearest = get_close_matches(name.lower().replace("-", "_"), known, 1, cutoff=0.0)
            logger.warning("There is no option %s; do you mean %s?", name, nearest[0])


def _as_text(name: str, given: object) -> str:
    """Raises `OptionsError` if an option was not given one value."""
    values = getattr(given, "val", None)  # of the command line: one for each --set
    if values is None:
        values = given if isinstance(given, list) else [given]
    if len(values) > 1:
        raise exceptions.OptionsError(f"{name} is given {len(values)} times; give it once.")
    value = values[0] if values else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    what = "has no value" if value is None else f"is {value!r}, which is no text"
    raise exceptions.OptionsError(f"{name} {what}; set it as in {name}={_DEFAULTS[name]!r}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, checked and parsed."""

    repair: FlowTest | None = None
    """A user's filter; None stands for ``auto``."""
    policy: Policy = field(default_factory=Policy)
    bridge: FlowTest | None = None
    """A user's filter; None stands for ``auto``."""
    cure: FlowTest | None = None
    """A user's filter; None stands for ``auto``."""
    dialect: str = "auto"
    unsupported: Literal["drop", "error"] = "drop"
    heartbeat: float = 5.0
    """Seconds; 0: never."""
    store: tuple[str, float, int] = ("off", 30.0, 0)
    """Where, days, bytes."""
    keep: int = 8 * 1024 * 1024
    """Bytes to keep of each side."""
    metrics: int = 0
    """A port, or 0."""

    @classmethod
    def of(cls, options: Any) -> Settings:
        """Raises `OptionsError` with a message that says what to change."""
        for name, allowed in _CHOICES.items():
            value = getattr(options, name)
            if value not in allowed:
                raise exceptions.OptionsError(
                    f"{name} is {value!r}; set it to one of: {', '.join(allowed)}."
                )
        policy = Policy(
            text=cast(Literal["content", "field"], options.dragoman_kimi_text),
            finish=cast(Literal["tool_calls", "keep"], options.dragoman_finish_reason),
            formats=_formats(options.dragoman_formats),
        )
        return cls(
            repair=_flow_test("dragoman_repair", options.dragoman_repair),
            policy=policy,
            bridge=_flow_test("dragoman_bridge", options.dragoman_bridge),
            cure=_flow_test("dragoman_cure", options.dragoman_cure),
            dialect=options.dragoman_dialect,
            unsupported=cast(Literal["drop", "error"], options.dragoman_unsupported_tools),
            heartbeat=_number("dragoman_heartbeat", options),
            store=(
                options.dragoman_store,
                _number("dragoman_store_days", options),
                _number("dragoman_store_max", options),
            ),
            keep=_number("dragoman_keep", options),
            metrics=_number("dragoman_metrics", options),
        )

    def in_words(self, *, repair: bool, dialect: str) -> dict[str, str]:
        """The settings that a reply depends on, by the options' names: for its record."""
        return {
            "dragoman_repair": "on" if repair else "off",
            "dragoman_formats": self.policy.formats.words,
            "dragoman_kimi_text": self.policy.text,
            "dragoman_finish_reason": self.policy.finish,
            "dragoman_dialect": dialect,
            "dragoman_unsupported_tools": self.unsupported,
        }


def _flow_test(name: str, value: str) -> FlowTest | None:
    word = value.strip().lower()
    if word == "auto":
        return None
    if word == "off":
        return lambda _flow: False
    if word in _INSTEAD:
        raise exceptions.OptionsError(
            f"{name} is {value!r}, which as a flow filter means addresses with {word!r} in them; "
            f"set it to {_INSTEAD[word]}."
        )
    try:
        parsed = flowfilter.parse(value)
    except (ValueError, RecursionError) as error:
        raise exceptions.OptionsError(
            f"{name} is {value!r}, which is no flow filter ({error}); "
            "set it to auto, off, or a filter such as '~d moonshot.ai'."
        ) from None
    return lambda flow: bool(parsed(flow))


def _formats(value: str) -> FormatChoice:
    chosen = FormatChoice.of(value)
    if chosen is None:
        raise exceptions.OptionsError(
            f"dragoman_formats is {value!r}; set it to auto, to all, or to one or more of "
            f"{_FORMATS}, joined by commas."
        )
    return chosen


def _bytes(text: str) -> int | None:
    return human.parse_size(text.strip().lower())


_BYTES = "such as 500k, 8m or 1g"
_NUMBERS: dict[str, tuple[Callable[[str], Any], Callable[[Any], bool], str]] = {
    "dragoman_heartbeat": (
        float,
        lambda seconds: seconds == 0 or MIN_HEARTBEAT <= seconds <= MAX_HEARTBEAT,
        f"a number of seconds from {MIN_HEARTBEAT} to {MAX_HEARTBEAT}, or to 0 for never",
    ),
    "dragoman_store_days": (float, lambda days: 0 < days < 36500, "a number of days"),
    "dragoman_store_max": (_bytes, lambda n: n >= 1, f"a number of bytes from 1 up, {_BYTES}"),
    "dragoman_keep": (_bytes, lambda n: n >= 0, f"a number of bytes from 0 up, {_BYTES}"),
    "dragoman_metrics": (int, lambda port: 0 <= port < 65536, "a port, or to 0 for none"),
}
"""How each is read, whether it is valid, and what to set it to."""


def _number(name: str, options: Any) -> Any:
    text, (read, is_valid, wanted) = getattr(options, name), _NUMBERS[name]
    try:
        number = read(text)
    except ValueError:
        number = None
    if number is None or not is_valid(number):
        raise exceptions.OptionsError(f"{name} is {text!r}; set it to {wanted}.")
    return number
