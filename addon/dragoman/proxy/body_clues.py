"""Which API a body belongs to: a request for a response, a 404 for a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mitmproxy import http

from ..wire.errors import MAX_SAID, error_object
from ..wire.json_codec import NotJson, loads
from ..wire.request_bounds import TooLarge
from .content_decoding import DecodingError
from .http_headers import body_of, media_type, request_body

SMALL = 64 * 1024
"""Bytes of a request that is parsed: some milliseconds. A larger one is only searched."""
MAX_ERROR = 256 * 1024
"""Bytes of an error that is read; a longer one is a page for people."""
_MODEL = re.compile(rb'"model"\s*:\s*"')
_INPUT = re.compile(rb'"(?:input|messages)"\s*:')
_SOMETHING = re.compile(
    r"model|deployment|previous_response|(item|response) with id|no endpoints", re.IGNORECASE
)


async def asks_for_a_turn(request: http.Request) -> bool:
    """Whether the body is that of the Responses or the Messages API: other things have such paths
    too.  An empty object is: with it clients find out what a host has."""
    try:
        body = await request_body(request)
        if len(body) > SMALL:
            return bool(_MODEL.search(body) and _INPUT.search(body))
        value = loads(body)
    except TooLarge:
        return True  # it is refused where it would be bridged
    except (NotJson, DecodingError):
        return False
    if value == {}:
        return True
    if not isinstance(value, dict) or not isinstance(value.get("model"), str):
        return False
    return "input" in value or "messages" in value


def names_something(request: http.Request, response: http.Response) -> bool:
    """Whether a 404 is about a model, an item or an earlier response. The request's address does
    not count where the error repeats it."""
    try:
        body = body_of(response, MAX_ERROR)
        value = loads(body)
    except DecodingError:
        return False
    except NotJson:
        if media_type(response) not in ("text/plain", "application/json"):
            return False  # a page for people
        value = body[:MAX_SAID].decode(errors="replace")
    if error_object(value).param:
        return True  # the parameter of the request that is wrong
    text = "\n".join(_texts(value, 3))[:MAX_SAID]
    addresses = (request.path, request.path.partition("?")[0], request.pretty_host)
    for address in sorted(filter(None, addresses), key=len, reverse=True):
        text = text.replace(address, "")
    return _SOMETHING.search(text) is not None


def _texts(value: object, levels: int) -> Iterator[str]:
    """The strings of a JSON value, not its keys."""
    if isinstance(value, str):
        yield value
    elif levels and isinstance(value, dict | list):
        for member in list(value.values() if isinstance(value, dict) else value)[:50]:
            yield from _texts(member, levels - 1)
