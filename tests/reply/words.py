"""Words as lines, to be compared."""

from __future__ import annotations

from dragoman.reply.words import (
    Arguments,
    CallBegin,
    Cited,
    Delta,
    Done,
    Failed,
    Finish,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Reader,
    Text,
)
from dragoman.wire.sse import Frame


def words(reader: Reader, *frames: Frame) -> list[str]:
    """What `reader` reads in the bytes of frames.  Parts are numbered; those that repair leaves
    have an exclamation mark."""
    said, parts = list[str](), dict[Part, str]()
    for frame in frames:
        more = reader.more(came := Frame(frame.raw))
        deltas = [reader.delta(*more)] if more is not None else reader.read(came)
        said += [_shown(delta, parts) for delta in deltas]
    return said


def _shown(delta: Delta, parts: dict[Part, str]) -> str:
    part, name = getattr(delta, "part", None), ""
    if part is not None:
        name = parts.setdefault(part, f"{part.kind} {len(parts)}") + ("!" if part.fixed else "")
    match delta:
        case PartBegin():
            return f"{name} begins {part.type if part is not None else ''}".rstrip()
        case Text(text=text, logprobs=logprobs, repeats=repeats):
            return f"{name}: {text}{' +' if logprobs else ''}{' again' if repeats else ''}"
        case CallBegin(id=call_id, name=called, text=text):
            return f"{name}: {call_id} {called}({text}"
        case Arguments(text=text):
            return f"{name}: ({text}"
        case PartEnd(cut=cut):
            return f"{name} is cut" if cut else f"{name} ends"
        case Cited(annotations=annotations):
            return f"cited {' '.join(each['url'] for each in annotations)}"
        case Finish(choice=choice, reason=reason, status=status):
            said = " ".join(filter(None, [str(reason), *(status or ())[:2]]))
            return f"{choice} finishes: {said}"
        case Failed(error=error):
            return f"failed: {error.message if error else ''}"
        case Other(unread=None, ends_text=ends_text):
            return f"{name} text ends" if ends_text else f"other {name}".rstrip()
        case Other(unread=unread, count=count):
            return f"other {unread.name if unread else ''} {count}"
        case Done():
            return "done"
