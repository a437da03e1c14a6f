"""The user's options: declared, checked, and frozen into one record.

`Settings.of` runs when an option changes; a flow uses the settings in force when its
response headers arrive, to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from mitmproxy import exceptions, flowfilter, http
from mitmproxy.addonmanager import Loader
from mitmproxy.utils import human

from ..bridge.dialects import DIALECTS
from ..kimi.parts import Policy

MIN_HEARTBEAT, MAX_HEARTBEAT = 0.1, 3600
FlowTest = Callable[[http.HTTPFlow], bool]

_CHOICES = {
    "dragoman_kimi_text": ("content", "field"),
    "dragoman_finish_reason": ("tool_calls", "keep"),
    "dragoman_dialect": ("auto", *DIALECTS),
    "dragoman_unsupported_tools": ("drop", "error"),
}


_OPTIONS = (
    (
        "dragoman_repair",
        "auto",
        "Which responses to repair: a flow filter, 'auto' for every chat completions reply and "
        "every bridged one, or 'off'.",
    ),
    (
        "dragoman_kimi_text",
        "content",
        "Where text around a tool call section goes: 'content', or the 'field' it came in.",
    ),
    (
        "dragoman_finish_reason",
        "tool_calls",
        "What becomes of finish_reason 'stop' on a turn that called tools: 'tool_calls' or 'keep'.",
    ),
    (
        "dragoman_bridge",
        "auto",
        "Which requests to .../responses to bridge to Chat Completions: a flow filter, 'auto' "
        "for hosts known or found to speak only that, '~all' for a reverse proxy, or 'off'.",
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
        "Tools that no chat upstream can serve: 'drop' them, on record, or answer with an 'error'.",
    ),
    (
        "dragoman_heartbeat",
        "5",
        "Seconds of silence after which a client that waits for a stream hears something; 0: "
        "never.",
    ),
    (
        "dragoman_store",
        "",
        "Where to keep responses for previous_response_id: a SQLite file (default: "
        "dragoman.sqlite3 in mitmproxy's confdir), 'redis://...', 'memory', or 'off'.",
    ),
    (
        "dragoman_store_days",
        "30",
        "Days for which a stored response is kept after it was last used.",
    ),
    (
        "dragoman_store_max",
        "1g",
        "How large a store may become: the oldest responses go first. Redis has a limit of its "
        "own.",
    ),
    (
        "dragoman_keep",
        "8m",
        "How much to keep of what upstreams sent, and of what clients received, over all flows "
        "and to be looked at: a size such as '8m' or '1g'. The oldest flows are emptied first.",
    ),
    (
        "dragoman_capture",
        "",
        "A folder into which every watched reply is written as a fixture, secrets removed.",
    ),
    (
        "dragoman_metrics",
        0,
        "A port of 127.0.0.1 at which Prometheus finds the figures; 0: none. Needs the package "
        "prometheus-client in mitmproxy's environment.",
    ),
)


def declare(loader: Loader) -> None:
    """Make the options known to mitmproxy."""
    for name, default, text in _OPTIONS:
        loader.add_option(name, type(default), default, text, choices=_CHOICES.get(name))


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, checked and parsed."""

    repair: FlowTest | None = None
    """A user's filter; None stands for ``auto``."""
    policy: Policy = field(default_factory=Policy)
    bridge: FlowTest | None = None
    """A user's filter; None stands for ``auto``."""
    dialect: str = "auto"
    unsupported: Literal["drop", "error"] = "drop"
    heartbeat: float = 5.0
    """Seconds; 0: never."""
    store: tuple[str, float, int] = ("off", 30.0, 0)
    """Where responses are kept, for how many days, and up to how many bytes."""
    keep: int = 8 * 1024 * 1024
    """Bytes to keep of each side."""
    capture: Path | None = None
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
        )
        return cls(
            repair=_flow_test("dragoman_repair", options.dragoman_repair),
            policy=policy,
            bridge=_flow_test("dragoman_bridge", options.dragoman_bridge),
            dialect=options.dragoman_dialect,
            unsupported=cast(Literal["drop", "error"], options.dragoman_unsupported_tools),
            heartbeat=_seconds("dragoman_heartbeat", options.dragoman_heartbeat),
            store=(
                options.dragoman_store,
                _days("dragoman_store_days", options.dragoman_store_days),
                _size("dragoman_store_max", options.dragoman_store_max, least=1),
            ),
            keep=_size("dragoman_keep", options.dragoman_keep),
            capture=_folder(options.dragoman_capture),
            metrics=_port("dragoman_metrics", options.dragoman_metrics),
        )

    def in_words(self, *, repair: bool, dialect: str) -> dict[str, str]:
        """What of this a reply depends on, by the options' names: for its record."""
        return {
            "dragoman_repair": "on" if repair else "off",
            "dragoman_kimi_text": self.policy.text,
            "dragoman_finish_reason": self.policy.finish,
            "dragoman_dialect": dialect,
            "dragoman_unsupported_tools": self.unsupported,
        }


def _flow_test(name: str, value: str) -> FlowTest | None:
    if value == "auto":
        return None
    if value == "off":
        return lambda _flow: False
    try:
        parsed = flowfilter.parse(value)
    except ValueError as error:
        raise exceptions.OptionsError(
            f"{name} is {value!r}, which is no flow filter ({error}); "
            "set it to auto, off, or a filter such as '~d moonshot.ai'."
        ) from None
    return lambda flow: bool(parsed(flow))


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not (seconds == 0 or MIN_HEARTBEAT <= seconds <= MAX_HEARTBEAT):
        raise exceptions.OptionsError(
            f"{name} is {value!r}; set it to a number of seconds from {MIN_HEARTBEAT} to "
            f"{MAX_HEARTBEAT}, or to 0 for never."
        )
    return seconds


def _days(name: str, value: str) -> float:
    try:
        days = float(value)
    except ValueError:
        days = 0.0
    if not 0 < days < 36500:
        raise exceptions.OptionsError(f"{name} is {value!r}; set it to a number of days.")
    return days


def _size(name: str, value: str, *, least: int = 0) -> int:
    try:
        size = human.parse_size(value.strip().lower())
    except ValueError:
        size = None
    if size is None or size < least:
        raise exceptions.OptionsError(
            f"{name} is {value!r}; set it to a number of bytes from {least} up, such as 500k, 8m "
            "or 1g."
        )
    return size


def _folder(value: str) -> Path | None:
    return Path(value).expanduser() if value else None


def _port(name: str, value: int) -> int:
    if not 0 <= value < 65536:
        raise exceptions.OptionsError(f"{name} is {value}; set it to a port, or to 0 for none.")
    return value
