"""The user's options: declared, checked, and frozen into one record.

A flow uses the settings in force when its response headers arrive, to its end.  All options are
strings to mitmproxy: what it cannot convert to an option's type it raises in a task that nobody
awaits, and the proxy then runs without this script. `take_over` checks the given values before
that happens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from mitmproxy import exceptions, flowfilter, http
from mitmproxy.addonmanager import Loader
from mitmproxy.options import Options
from mitmproxy.utils import human

from ..repair.formats.formats_by_family import NAMES, FormatChoice
from ..repair.repair_options import RepairOptions
from ..responses.dialects import DIALECTS
from ..stored.store import Limits

logger = logging.getLogger(__name__)

MIN_HEARTBEAT, MAX_HEARTBEAT = 0.1, 3600
FlowTest = Callable[[http.HTTPFlow], bool]


class OptionsOverlay:
    """mitmproxy's options, with some replaced."""

    def __init__(self, options: Options, **replaced: object) -> None:
        self._options = options
        self._replaced = replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced[name] if name in self._replaced else getattr(self._options, name)


class _InvalidError(Exception):
    """The rest of the sentence "OPTION is VALUE", with what to set it to."""


def _checked(
    read: Callable[[str], Any], wanted: str, is_valid: Callable[[Any], bool] = lambda _: True
) -> Callable[[str], Any]:
    """Reads an option's value; raises `_InvalidError`."""

    def checked(text: str) -> Any:
        try:
            value = read(text)
        except ValueError:
            value = None
        if value is None or not is_valid(value):
            raise _InvalidError(f"; set it to {wanted}")
        return value

    return checked


def _bytes(text: str) -> int | None:
    return human.parse_size(text.strip().lower())


_INSTEAD = {
    **dict.fromkeys(("true", "yes", "on", "1"), "auto, or to ~all for every flow"),
    "all": "~all, or to auto",
    **dict.fromkeys(("none", "false", "no", "0"), "off"),
}
"""Words that as a flow filter would match addresses, which nobody means."""


def _flow_test(value: str) -> FlowTest | None:
    word = value.strip().lower()
    if word == "auto":
        return None
    if word == "off":
        return lambda _flow: False
    if word in _INSTEAD:
        raise _InvalidError(
            f", which as a flow filter means addresses with {word!r} in them; "
            f"set it to {_INSTEAD[word]}"
        )
    try:
        parsed = flowfilter.parse(value)
    except (ValueError, RecursionError) as error:
        raise _InvalidError(
            f", which is no flow filter ({error}); "
            "set it to auto, off, or a filter such as '~d moonshot.ai'"
        ) from None
    return lambda flow: bool(parsed(flow))


@dataclass(frozen=True, slots=True)
class _Option:
    default: str
    help: str
    read: Callable[[str], Any]
    """Raises `_InvalidError`."""
    choices: tuple[str, ...] | None = None
    joined: str = ""
    """What joins the elements of a list in the configuration file; empty if there can be none."""


def _choice(text: str, *choices: str) -> _Option:
    """The first is the default."""
    read = _checked(str, f"one of: {', '.join(choices)}", choices.__contains__)
    return _Option(choices[0], text, read, choices)


_FORMATS = ", ".join(NAMES)
_SIZE = "such as 500k, 8m or 1g"
_OPTIONS = {
    "dragoman_repair": _Option(
        "auto",
        "Which responses to repair: a flow filter, 'auto' for every reply of Chat Completions, the "
        "Responses API or the Messages API (but that of Anthropic's own host), or 'off'.",
        _flow_test,
        joined=" | ",
    ),
    "dragoman_formats": _Option(
        "auto",
        "Formats of leaked tool calls that are looked for: 'auto' for those that the model may "
        f"write; 'all'; or names joined by commas, of {_FORMATS}.",
        _checked(
            FormatChoice.of, f"auto, to all, or to one or more of {_FORMATS}, joined by commas"
        ),
        joined=",",
    ),
    "dragoman_kimi_text": _choice(
        "Where text around a tool call section goes in a chat reply: 'content', or the 'field' it "
        "came in.",
        *("content", "field"),
    ),
    "dragoman_finish_reason": _choice(
        "What becomes of finish_reason 'stop', or another end that is no limit, on a turn with "
        "repaired calls: 'tool_calls' or 'keep'.",
        *("tool_calls", "keep"),
    ),
    "dragoman_bridge": _Option(
        "auto",
        "Which requests to .../responses and .../v1/messages to bridge: a flow filter, 'auto' for "
        "hosts known or found to speak only Chat Completions, '~all' for a reverse proxy, 'off'.",
        _flow_test,
        joined=" | ",
    ),
    "dragoman_cure": _Option(
        "auto",
        "Which requests of Chat Completions and Messages to make acceptable to their hosts: a flow "
        "filter, 'auto' for all to models whose hosts are known to refuse some, or 'off'.",
        _flow_test,
        joined=" | ",
    ),
    "dragoman_dialect": _choice(
        "The dialect of bridged streams: 'auto' (codex for Codex, else openai), 'openai', "
        "'codex', 'openresponses' or 'guide'. A request header x-dragoman-dialect overrides it.",
        *("auto", *DIALECTS),
    ),
    "dragoman_unsupported_tools": _choice(
        "Tools that no chat upstream can serve: 'drop' them (the log says so), or answer with an "
        "'error'.",
        *("drop", "error"),
    ),
    "dragoman_heartbeat": _Option(
        "5",
        "Seconds of silence after which a client that waits for a stream is sent something; 0: "
        "never.",
        _checked(
            float,
            f"a number of seconds from {MIN_HEARTBEAT} to {MAX_HEARTBEAT}, or to 0 for never",
            lambda seconds: seconds == 0 or MIN_HEARTBEAT <= seconds <= MAX_HEARTBEAT,
        ),
    ),
    "dragoman_store": _Option(
        "",
        "Where to keep responses for previous_response_id, and reasoning that chat hosts want "
        "back: a SQLite file (default: dragoman.sqlite3 in mitmproxy's confdir), 'redis://...', "
        "'memory', or 'off'.",
        str,  # `open_store` checks it
    ),
    "dragoman_store_days": _Option(
        "30",
        "Days for which a stored response is kept after it was last used.",
        _checked(float, "a number of days above 0 and below 36500", lambda days: 0 < days < 36500),
    ),
    "dragoman_store_max": _Option(
        "1g",
        "How large a store may become. When it is full, the owner who has the most loses what was "
        "not used for the longest time. Redis has a limit of its own.",
        _checked(_bytes, f"a number of bytes from 1 up, {_SIZE}", lambda size: size >= 1),
    ),
    "dragoman_keep": _Option(
        "8m",
        "How much to keep, to be looked at, of what an upstream sent in a flow, and as much of "
        "what the client received: a size such as '8m'. Of more, the first and the last half.",
        _checked(_bytes, f"a number of bytes from 0 up, {_SIZE}", lambda size: size >= 0),
    ),
    "dragoman_metrics": _Option(
        "0",
        "A port of 127.0.0.1 at which Prometheus finds the figures; 0: none. Needs the package "
        "prometheus-client in mitmproxy's environment.",
        _checked(int, "a port, or to 0 for none", lambda port: 0 <= port < 65536),
    ),
}


def declare(loader: Loader) -> None:
    """Make the options known to mitmproxy."""
    for name, option in _OPTIONS.items():
        loader.add_option(name, str, option.default, option.help, choices=option.choices)


def take_over(deferred: dict[str, Any]) -> None:
    """Convert mitmproxy's `deferred` options, those given before this script was loaded, to text.
    An invalid one is removed, with an error in the log, with which mitmproxy does not start; so it
    is with an unknown name."""
    for name, value in list(deferred.items()):
        if name in _OPTIONS:
            try:
                deferred[name] = _as_text(name, value)
            except exceptions.OptionsError as error:
                del deferred[name]
                logger.error("%s", error)
        elif (like := name.lower().replace("-", "_")).startswith("dragoman"):
            nearest = get_close_matches(like, _OPTIONS, 1, cutoff=0.0)
            logger.error("There is no option %s; do you mean %s?", name, nearest[0])


def _as_text(name: str, given: object) -> str:
    """Raises `OptionsError` if an option was not given one value, or a list where that has a
    meaning: any of several filters, all of several formats."""
    joined = _OPTIONS[name].joined
    if joined and isinstance(given, list) and len(given) > 1 and set(map(type, given)) == {str}:
        given = joined.join(f"({each})" if "|" in joined else each for each in given)
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
    default = _OPTIONS[name].default
    raise exceptions.OptionsError(f"{name} {what}; set it as in {name}={default!r}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, checked and parsed, by their names without ``dragoman_``. A filter is None for
    ``auto``."""

    repair: FlowTest | None = None
    repair_options: RepairOptions = field(default_factory=RepairOptions)
    bridge: FlowTest | None = None
    cure: FlowTest | None = None
    dialect: str = "auto"
    unsupported_tools: Literal["drop", "error"] = "drop"
    heartbeat: float = 5.0
    """Seconds; 0: never."""
    store: str = "off"
    store_limits: Limits = field(default_factory=lambda: Limits(days=30, max_bytes=0))
    keep: int = 8 * 1024 * 1024
    """Bytes to keep of each side."""
    metrics: int = 0
    """A port, or 0."""

    @classmethod
    def of(cls, options: Any) -> Settings:
        """Raises `OptionsError` with a message that says what to change."""
        read = {}
        for name, option in _OPTIONS.items():
            text = getattr(options, name)
            try:
                read[name.removeprefix("dragoman_")] = option.read(text)
            except _InvalidError as error:
                raise exceptions.OptionsError(f"{name} is {text!r}{error}.") from None
        repair_options = RepairOptions(
            read.pop("kimi_text"), read.pop("finish_reason"), read.pop("formats")
        )
        limits = Limits(read.pop("store_days"), read.pop("store_max"))
        return cls(repair_options=repair_options, store_limits=limits, **read)
