"""The content of Responses items as the content of chat messages.

Text alone is a string, which every chat host takes; only images, files and audio make a list of
parts.  On a chat upstream only users may send more than text, so other parts of a tool's or a
developer's message are returned apart, for a user message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.json_codec import objects
from ...wire.request_bounds import MAX_INNER
from ..conversation import ContentPart
from .images import image_url, is_ciphertext, without_data
from .validation import RequestObject, label, missing, present, unsupported, wrong_type

_TEXT_FIELDS = {
    **dict.fromkeys(("input_text", "output_text", "text"), "text"),
    **dict.fromkeys(("reasoning_text", "summary_text"), "text"),
    **{name: name for name in ("refusal", "encrypted_content")},
}
"""The text parts, and the field of their text."""
ENCRYPTED = "[This part is encrypted for another provider, and cannot be read here.]"
NO_AUDIO = "[Audio was left out: it cannot be sent from here.]"
_TEXTS = ("text", "content", "output", "summary", "message", "refusal", "transcript")


def user_content(value: object, path: str, evidence: Evidence) -> str | list[ContentPart]:
    """Raises `Refused` for wrong types and unreachable media."""
    if isinstance(value, str):
        return value
    parts: list[ContentPart] = []
    for part in _parts(value, path):
        text = _text_or_notice(part, evidence)
        if text is None and (media := _media(part)) is not None:
            parts.append(media)
        elif text := _text_of_unknown(part, evidence) if text is None else text:
            parts.append({"type": "text", "text": text})  # Moonshot refuses an empty one
    return merged(parts)


def text_content(
    value: object, path: str, evidence: Evidence, joint: str, media: list[ContentPart] | None = None
) -> str:
    """The text of a message that can hold nothing else.  `media` receives the parts that only a
    user message can hold; others, or without it all, are dropped and recorded."""
    if isinstance(value, str):
        return value
    texts: list[str] = []
    for part in _parts(value, path):
        text = _text_or_notice(part, evidence)
        if text is None and media is not None and isinstance(read := text_or_media(part), dict):
            media.append(read)
            continue
        if text is None:
            text = _text_of_unknown(part, evidence, " of a text-only message")
        if text is not None:
            texts.append(text)
    return joint.join(texts)


def readable_text(value: object, *, joint: str) -> str:
    """The text of a string or of the parts that have one; nothing is refused.

    For what the client only passes on: it cannot mend it, and would send it for ever.
    """
    if isinstance(value, str):
        return value
    read = [text_or_media(RequestObject(part)) for part in objects(value)]
    return joint.join(text for text in read if isinstance(text, str))


def merged(parts: list[ContentPart]) -> str | list[ContentPart]:
    """Parts as content: a string if all are text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def notice(part: RequestObject, evidence: Evidence) -> str | None:
    """A line in place of a part that no chat upstream can read; None for any other."""
    match part.get("type"):
        case "encrypted_content" if is_ciphertext(part.get("encrypted_content")):
            line = ENCRYPTED
        case "input_audio" if part.get("audio_url") is not None:
            line = NO_AUDIO
        case _:
            return None
    evidence.note("left out", f"part {label(part.get('type'))}")
    return line


def text_of(value: Any, depth: int = 0) -> str:
    """The text of an item or a part of any form, with its parts."""
    if isinstance(value, str):
        return without_data(value)
    if depth > MAX_INNER:
        return ""
    if isinstance(value, list):
        return "\n".join(filter(None, (text_of(part, depth + 1) for part in value)))
    if isinstance(value, Mapping):
        return next(filter(None, (text_of(value.get(name), depth + 1) for name in _TEXTS)), "")
    return ""


def text_or_media(part: RequestObject) -> str | ContentPart | None:
    """None for a part that is neither, or malformed, or out of reach."""
    try:
        text = _text(part)
        return _media(part) if text is None else text
    except Refused:
        return None


def _parts(value: object, path: str) -> list[RequestObject]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(value, "a string or an array", path)
    return [RequestObject.of(part, f"{path}[{index}]") for index, part in enumerate(value)]


def _text(part: RequestObject) -> str | None:
    """None for a part that is not text."""
    name = _TEXT_FIELDS.get(part.required_string("type"))
    return None if name is None else part.required_string(name)


def _text_or_notice(part: RequestObject, evidence: Evidence) -> str | None:
    line = notice(part, evidence)
    return _text(part) if line is None else line


def _text_of_unknown(part: RequestObject, evidence: Evidence, where: str = "") -> str | None:
    """The text in a part of a kind that has no place here; None for a part that is dropped."""
    kind = f"part {label(part.get('type'))}"
    if text := text_of(part.values):
        evidence.note("sent as text", kind)
        return text
    evidence.note("dropped", kind + where)
    return None


def _media(part: RequestObject) -> ContentPart | None:
    """None for a part that is no media."""
    file = part.get("file")
    match part.get("type"):
        case "input_image" | "image_url":
            return {"type": "image_url", "image_url": _image(part)}
        case "input_file":
            return {"type": "file", "file": _file(part)}
        case "file" if isinstance(file, dict):
            return {"type": "file", "file": _file(RequestObject(file, part.at("file")))}
        case "input_audio":
            audio = part.object("input_audio")
            if audio is None:
                raise missing(part.at("input_audio"))
            sound = {name: audio.required_string(name) for name in ("data", "format")}
            return {"type": "input_audio", "input_audio": sound}
        case _:
            url = image_url(part.values)
            return None if url is None else {"type": "image_url", "image_url": {"url": url}}


def _image(part: RequestObject) -> dict[str, str]:
    """``image_url`` is a string, or an object as in chat; ``original`` detail, which
    chat does not know, is its ``high``."""
    nested = part.object("image_url") if isinstance(part.get("image_url"), dict) else None
    url = part.string("image_url") if nested is None else nested.required_string("url")
    if url is None:
        raise _unreachable("an image", part, by="file_id", inline="image_url")
    detail = (nested or part).string("detail")
    if detail is None or detail == "auto":
        return {"url": url}
    return {"url": url, "detail": "high" if detail == "original" else detail}


def _file(part: RequestObject) -> dict[str, str]:
    names = ("filename", "file_data", "file_id")
    file = present(**{name: part.string(name) for name in names})
    if "file_data" not in file and "file_id" not in file:
        raise _unreachable("a file", part, by="file_url", inline="file_data")
    return file


def _unreachable(what: str, part: RequestObject, *, by: str, inline: str) -> Refused:
    """A part without its data: it names a place no chat upstream can look up, or none."""
    if part.get(by) is None:
        return missing(part.at(inline))
    limit = f"a Chat Completions upstream cannot fetch {what} by {by}."
    return unsupported(part.at(by), f"{limit} Send it inline, as a data URL in {inline}.")
