"""Images in the forms that tools give them, and base64 that is no text.

A tool's client passes on what the tool returned: content of the Model Context Protocol
(``{"type": "image", "data": …, "mimeType": …}``, embedded resources), of Anthropic's API
(``source``), of Google's (``inlineData``), or a data URL.  An image counts here only with
its data in it: an object that merely names an address may be any record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...wire.json_codec import dumps

_MEDIA_TYPES = ("mimeType", "mime_type", "mediaType", "media_type")
_DATA = ("data", "blob", "base64")
_URLS = ("image_url", "url", "image")
_NESTED = ("source", "resource", "inlineData", "inline_data")
_OF_AN_IMAGE = {*_MEDIA_TYPES, *_DATA, *_URLS, *_NESTED, "detail"}
"""The only fields of an image object without a type."""
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]+=[\w.+-]*)*;base64,[A-Za-z0-9+/=_-]*+")
_LONG_RUN = re.compile(r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]|\\[nr]){512,}+={0,2}")
"""Longer than any word, hash or key; in JSON text, a line's end is written ``\\n``.  Tried
only where a run begins, so that many that are too short cost no more than their length."""
_CIPHERTEXT = re.compile(r"gAAAA[A-Za-z0-9_-]{20,}={0,2}")
"""OpenAI's encrypted parts, and Fernet tokens."""
_SEALED = re.compile(r"gAAAA\S*|[A-Za-z0-9+/_-]{120,}={0,2}")
LEFT_OUT = "(data left out)"
_MEDIA = ("image", "audio", "video", "media", "resource", "input_audio")
_DESCRIBING = (*_MEDIA_TYPES, "format", "uri")
_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]*+={0,2}\s*")
_ALWAYS_DATA = ("b64_json", "encrypted_content")


def image_url(values: Mapping[str, Any], *, nested: bool = True) -> str | None:
    """The data URL of an object that is an image; None for any other."""
    kind = values.get("type")
    if kind is None and nested and not values.keys() <= _OF_AN_IMAGE:
        return None
    media_type = next((values[name] for name in _MEDIA_TYPES if name in values), None)
    if media_type is None and isinstance(kind, str) and "image" in kind:
        media_type = "image/png"
    if isinstance(media_type, str) and media_type.startswith("image/"):
        for name in _DATA:
            if isinstance(data := values.get(name), str) and data:
                return data if data.startswith("data:") else f"data:{media_type};base64,{data}"
    for name in _URLS:
        url = values.get(name)
        if isinstance(url, dict):
            url = url.get("url")
        if is_image(url):
            return str(url)
    if nested:
        for name in _NESTED:
            if isinstance(inner := values.get(name), dict):
                return image_url(inner, nested=False)
    return None


def is_image(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.startswith("data:image/")
        and _DATA_URL.fullmatch(value) is not None
    )


def without_data(text: str) -> str:
    """Replaces data URLs, and all that can only be data, by a remark."""
    return _CIPHERTEXT.sub(LEFT_OUT, _LONG_RUN.sub(LEFT_OUT, _DATA_URL.sub(LEFT_OUT, text)))


def is_ciphertext(value: object) -> bool:
    """Whether the value of a field called encrypted is so: for providers that encrypt nothing,
    Codex puts plain text there."""
    return not isinstance(value, str) or _SEALED.fullmatch(value.strip()) is not None


def json_without_data(value: Any) -> str:
    """The JSON text of a value, without data."""
    return without_data(dumps(without_media(value)).decode())


def without_media(value: Any) -> Any:
    """Replaces what a value's own fields mark as data by a remark."""
    if isinstance(value, list):
        return [without_media(element) for element in value]
    if not isinstance(value, dict):
        return value
    described = value.get("type") in _MEDIA or any(name in value for name in _DESCRIBING)
    names = (*_ALWAYS_DATA, *_DATA) if described else _ALWAYS_DATA
    return {
        name: LEFT_OUT
        if name in names and isinstance(member, str) and _BASE64.fullmatch(member)
        else without_media(member)
        for name, member in value.items()
    }
