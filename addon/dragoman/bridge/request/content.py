"""The content of Responses items as the content of chat messages.

Text alone is a string, which every chat host takes; only images, files and audio make
a list of parts.  Only users may say more than text on a chat upstream, so what a tool
returned beyond text, or a developer said, comes back apart, for a user message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.json_codec import dumps
from ..conversation import ContentPart
from .images import image_url, is_ciphertext, without_data
from .validation import RequestObject, label, missing, wrong_type

_TEXT_FIELDS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "summary_text": "text",
    "encrypted_content": "encrypted_content",
}
"""The parts that are text, and the field it stands in."""
ENCRYPTED = "[This part is encrypted for another provider, and cannot be read here.]"
NO_AUDIO = "[Audio was left out: it cannot be sent from here.]"
_TEXTS = ("text", "content", "output", "summary", "message", "refusal", "transcript")
"""The fields in which an item or a part may have its text."""
_DEEPEST = 3
"""Text further inside an unknown item is not looked for: an item, its parts, theirs."""


def user_content(value: object, path: str, evidence: Evidence) -> str | list[ContentPart]:
    """What a user said.  Raises `Refused` for wrong types and unreachable media."""
    if isinstance(value, str):
        return value
    parts = [chat for part in _parts(value, path) if (chat := _chat_part(part, evidence))]
    return merged(parts)


def text_content(value: object, path: str, evidence: Evidence, *, joint: str) -> str:
    """What someone said who can only say text; other parts are dropped and recorded."""
    if isinstance(value, str):
        return value
    texts: list[str] = []
    for part in _parts(value, path):
        text = stand_in(part, evidence)
        text = _text(part) if text is None else text
        if text is not None or (text := _found(part, evidence, " of a text-only message")):
            texts.append(text)
    return joint.join(texts)


def system_content(value: object, path: str, evidence: Evidence) -> tuple[str, list[ContentPart]]:
    """What a system or developer message says: its text, and the parts only a user message
    can hold.  Parts that cannot be sent are dropped and recorded."""
    if isinstance(value, str):
        return value, []
    texts: list[str] = []
    media: list[ContentPart] = []
    for part in _parts(value, path):
        text = stand_in(part, evidence)
        text = _text(part) if text is None else text
        if text is not None:
            texts.append(text)
        elif isinstance(read := text_or_media(part), dict):
            media.append(read)
        elif text := _found(part, evidence, " of a text-only message"):
            texts.append(text)
    return "\n".join(texts), media


def readable_text(value: object, *, joint: str) -> str:
    """The text of a string or of the parts that have one; nothing is refused.

    For what the client only passes on: it cannot mend it, and would send it for ever.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    read = [text_or_media(RequestObject(part)) for part in value if isinstance(part, dict)]
    return joint.join(text for text in read if isinstance(text, str))


def merged(parts: list[ContentPart]) -> str | list[ContentPart]:
    """Parts as content: a string if all are text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def json_text(value: object) -> str:
    """A value as compact JSON text, in the order of its keys."""
    return dumps(value).decode()


def _parts(value: object, path: str) -> list[RequestObject]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(value, "a string or an array", path)
    return [RequestObject.of(part, f"{path}[{index}]") for index, part in enumerate(value)]


def _chat_part(part: RequestObject, evidence: Evidence) -> ContentPart | None:
    """None for one that is left out: Moonshot refuses empty text among media."""
    text = stand_in(part, evidence)
    text = _text(part) if text is None else text
    if text is None and (media := _media(part)) is not None:
        return media
    if text is None:
        text = _found(part, evidence)
    return {"type": "text", "text": text} if text else None


def _found(part: RequestObject, evidence: Evidence, where: str = "") -> str:
    """The text in a part of a kind that has no place here; empty for one that is dropped."""
    kind = f"part {label(part.get('type'))}"
    if text := text_of(part.values):
        evidence.note("sent as text", kind)
    else:
        evidence.note("dropped", kind + where)
    return text


def stand_in(part: RequestObject, evidence: Evidence) -> str | None:
    """The line in the place of a part that no chat upstream can read; None for any other."""
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
    """The text of an item or a part of any form, and of the parts in it."""
    if isinstance(value, str):
        return without_data(value)
    if depth > _DEEPEST:
        return ""
    if isinstance(value, list):
        texts = [text_of(part, depth) for part in value]
        return "\n".join(text for text in texts if text)
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


def _text(part: RequestObject) -> str | None:
    """The text of a text part; None for another part."""
    name = _TEXT_FIELDS.get(part.required_string("type"))
    return None if name is None else part.required_string(name)


def _media(part: RequestObject) -> ContentPart | None:
    """An image, a file or audio; None for a part that is none of them."""
    match part.get("type"):
        case "input_image" | "image_url":
            return {"type": "image_url", "image_url": _image(part)}
        case "input_file":
            return {"type": "file", "file": _file(part)}
        case "file" if isinstance(part.get("file"), dict):
            return {
                "type": "file",
                "file": _file(RequestObject.of(part.get("file"), part.at("file"))),
            }
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
    detail = part.string("detail") if nested is None else nested.string("detail")
    if detail is None or detail == "auto":
        return {"url": url}
    return {"url": url, "detail": "high" if detail == "original" else detail}


def _file(part: RequestObject) -> dict[str, str]:
    fields = {name: part.string(name) for name in ("filename", "file_data", "file_id")}
    file = {name: value for name, value in fields.items() if value is not None}
    if "file_data" not in file and "file_id" not in file:
        raise _unreachable("a file", part, by="file_url", inline="file_data")
    return file


def _unreachable(what: str, part: RequestObject, *, by: str, inline: str) -> Refused:
    """A part without its data: it names a place no chat upstream can look up, or none."""
    if part.get(by) is None:
        return missing(part.at(inline))
    return Refused(
        f"'{part.at(by)}': a Chat Completions upstream cannot fetch {what} by {by}. "
        f"Send it inline, as a data URL in {inline}.",
        param=part.at(by),
        code="unsupported_value",
    )
