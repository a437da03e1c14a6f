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

_MEDIA_TYPES = ("mimeType", "mime_type", "mediaType", "media_type")
_DATA = ("data", "blob")
_URLS = ("image_url", "url", "image")
_NESTED = ("source", "resource", "inlineData", "inline_data")
_OF_AN_IMAGE = {*_MEDIA_TYPES, *_DATA, *_URLS, *_NESTED, "detail"}
"""The fields of an object without a type that is an image and nothing more."""
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]+=[\w.+-]*)*;base64,[A-Za-z0-9+/=_-]*+")
_LONG_RUN = re.compile(r"(?:[A-Za-z0-9+/_-]|\\[nr]){512,}+={0,2}")
"""Longer than any word, hash or key; in JSON text, a line's end is written ``\\n``."""
LEFT_OUT = "(data left out)"


def image_url(values: Mapping[str, Any], *, nested: bool = True) -> str | None:
    """The address of the image that an object is, which is a data URL; None if it is none."""
    kind = values.get("type")
    if kind is None and nested and not values.keys() <= _OF_AN_IMAGE:
        return None
    media_type = next((values[name] for name in _MEDIA_TYPES if name in values), None)
    if media_type is None and kind == "image":
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
    """Whether a value is the data URL of an image, and nothing else."""
    return (
        isinstance(value, str)
        and value.startswith("data:image/")
        and _DATA_URL.fullmatch(value) is not None
    )


def without_data(text: str) -> str:
    """`text` with a remark in the place of each data URL and of all that can only be data."""
    return _LONG_RUN.sub(LEFT_OUT, _DATA_URL.sub(LEFT_OUT, text))
