"""The output of a tool as the content of a chat message.

The Responses API has a string or a list of parts here.  Clients also send what their tool
returned: an object, a result of the Model Context Protocol, or any of these as a JSON string.
Such a string is parsed only if it holds an image or audio; all others stay as they are, to the
byte.
"""

from __future__ import annotations

from typing import Any

from ...notes import Evidence
from ...wire.json_codec import NotJson, dumps, loads
from ..conversation import ContentPart
from .content import NO_AUDIO, notice, text_or_media
from .images import image_url, is_image, json_without_data
from .validation import RequestObject

_AUDIO = ("audio", "input_audio")
_MARKS = ('"image', '"input_image', '"data:image', '"audio"', '"input_audio"')
"""One of these is in the JSON text of all media; other strings need not be read."""


def output_content(value: object, evidence: Evidence) -> str | list[ContentPart]:
    """A string, or its text, if there is any, and its media.

    What is neither text nor media that can be sent is kept as JSON text, without the
    base64 in it: a tool may return anything.
    """
    if value is None:
        return ""
    value = _structure(value) if isinstance(value, str) else value
    if isinstance(value, str):
        return value
    parts = _parts(value)
    return _as_json(value, evidence) if parts is None else _read(parts, evidence)


def _structure(text: str) -> object:
    """The value that a string holds, if there are media in it; else the string."""
    stripped = text.strip()
    if is_image(stripped):
        return {"type": "input_image", "image_url": stripped}
    if not stripped.startswith(("{", "[")) or not any(mark in stripped for mark in _MARKS):
        return text
    try:
        value = loads(stripped)
    except NotJson:
        return text
    elements = value if isinstance(value, list) else _parts(value)
    return value if elements and any(map(_is_media, elements)) else text


def _parts(value: object) -> list[Any] | None:
    """The parts of an output; None for a value that has none."""
    if isinstance(value, list):
        described = all(isinstance(part, dict) for part in value)
        return value if described or any(map(_is_media, value)) else None
    if not isinstance(value, dict):
        return None
    if _is_media(value) or text_or_media(RequestObject(value)) is not None:
        return [value]
    content = value.get("content")
    parts = content if isinstance(content, list) else [content]
    if not any(map(_is_media, parts)):
        return None
    rest = {name: inner for name, inner in value.items() if name not in _WRAPPING and inner}
    return [*parts, rest] if rest else parts


_WRAPPING = ("content", "type", "_meta")
"""The fields of a result without content of their own."""


def _is_media(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") in _AUDIO:
        return any(part.get(name) for name in ("data", "audio_url", "input_audio"))
    read = _part(part)
    return isinstance(read, dict) and "image_url" in read


def _read(parts: list[Any], evidence: Evidence) -> str | list[ContentPart]:
    """Texts follow each other as the tool wrote them; our own are on lines of their own."""
    text = ""
    after_line = False
    media: list[ContentPart] = []
    for part in parts:
        line = notice(RequestObject(part), evidence) if isinstance(part, dict) else None
        read = _part(part) if line is None else line
        if isinstance(read, dict) and read["type"] == "input_audio":
            evidence.note("left out", "part input_audio")
            read = line = NO_AUDIO  # moved to a user's message, as images are, it would be a 400
        if isinstance(read, dict):
            media.append(read)
            continue
        own_line = read is None or line is not None
        if text and (own_line or after_line):
            text += "\n"
        text += _as_json(part, evidence) if read is None else read
        after_line = own_line
    before: list[ContentPart] = [{"type": "text", "text": text}] if text else []
    return before + media if media else text


def _part(part: object) -> str | ContentPart | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    read = text_or_media(RequestObject(part))
    if read is None and (url := image_url(part)) is not None:
        return {"type": "image_url", "image_url": {"url": url}}
    return read


def _as_json(value: object, evidence: Evidence) -> str:
    text = json_without_data(value)
    if text != dumps(value).decode():
        evidence.note("left out", "data in a tool output")
    return text
