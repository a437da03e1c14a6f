"""The values that a reply is parsed into, the same for each API, streamed or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...wire.errors import ErrorObject
from ...wire.usage import Counts

ProseKind = Literal["reasoning", "text", "refusal", "compaction"]
"""`compaction`: a summary from which the conversation continues."""


@dataclass(frozen=True, slots=True)
class Prose:
    """Words of the model."""

    kind: ProseKind
    text: str


@dataclass(frozen=True, slots=True)
class ParsedCall:
    name: str
    id: str
    arguments: str
    """JSON text; a custom tool's input is any text."""
    kind: str = "function"
    """``function``, ``custom``, or the kind of the call item (``shell``, ``web_search``)."""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ParsedChoice:
    index: int = 0
    parts: tuple[Prose | ParsedCall, ...] = ()
    finish: str = ""
    """The finish reason, or the status of a response."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    shape: str = ""
    """Its API and form, as ``chat stream``; empty if nothing was understood."""
    model: str = ""
    id: str = ""
    choices: tuple[ParsedChoice, ...] = ()
    usage: Counts | None = None
    error: ErrorObject | None = None
    frames: int = 0
    """The number of a stream's frames."""
    unread: int = 0
    """Frames without a JSON object; a last one may be unfinished."""
    skipped: int = 0
    """Bytes in the middle of a large body that were not read."""
