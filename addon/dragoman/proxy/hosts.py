"""Which upstreams speak only Chat Completions: known ones, and those found out.

An upstream is known by host, port and base path.  One that answers a Responses request
with 404 or 405 is remembered while the proxy runs; one that then does not know Chat
Completions either is forgotten again.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from mitmproxy import http

from ..jsonio import NotJson, loads
from .addresses import base_path
from .decoding import DecodingError, decode_whole

KNOWN = (
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.deepseek.com",
    "api.deepinfra.com",
    "api.together.xyz",
    "api.cerebras.ai",
    "api.mistral.ai",
    "api.sambanova.ai",
    "api.siliconflow.cn",
    "api.siliconflow.com",
    "api.novita.ai",
    "api.hyperbolic.xyz",
    "api.studio.nebius.com",
    "api.z.ai",
    "open.bigmodel.cn",
    "inference.baseten.co",
    "integrate.api.nvidia.com",
    "llm.chutes.ai",
)
"""Hosts of Kimi and other open models that offer no Responses API."""

_NATIVE = ("api.openai.com", ".openai.azure.com")
_SOMETHING = re.compile(
    r"model|deployment|previous_response|(item|response) with id|no endpoints", re.IGNORECASE
)

MAX_LEARNED = 1000

Upstream = tuple[str, int, str]


class ChatOnlyHosts:
    """The upstreams that need the bridge."""

    def __init__(self) -> None:
        self._learned: OrderedDict[Upstream, None] = OrderedDict()

    def __contains__(self, request: http.Request) -> bool:
        return request.pretty_host in KNOWN or _upstream(request) in self._learned

    def learn(self, request: http.Request, response: http.Response) -> bool:
        """Whether `response` shows that its upstream knows no Responses API: the request
        was one, and what was not found is the address, not something it names."""
        if response.status_code not in (404, 405) or request.pretty_host.endswith(_NATIVE):
            return False
        if not _asks_for_a_response(request) or _names_something(response):
            return False
        self._learned[_upstream(request)] = None
        if len(self._learned) > MAX_LEARNED:
            self._learned.popitem(last=False)
        return True

    def forget(self, request: http.Request) -> None:
        """It does not know Chat Completions either."""
        self._learned.pop(_upstream(request), None)


def _upstream(request: http.Request) -> Upstream:
    return request.host, request.port, base_path(request)


def _asks_for_a_response(request: http.Request) -> bool:
    """Whether the body is that of the Responses API: other things have such paths too."""
    body = _json(request)
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return False
    return "input" in body or "messages" in body


def _names_something(response: http.Response) -> bool:
    """Whether a 404 is about a model, an item or an earlier response."""
    body = _json(response)
    if not isinstance(body, dict):
        return False
    error = body.get("error")
    fields = body | error if isinstance(error, dict) else body
    said = " ".join(str(fields.get(name)) for name in ("code", "type", "message", "error"))
    return isinstance(fields.get("param"), str) or _SOMETHING.search(said[:4000]) is not None


def _json(message: http.Message) -> object:
    try:
        content = decode_whole(
            message.raw_content or b"", message.headers.get("content-encoding", "identity")
        )
        return loads(content)
    except (NotJson, DecodingError):
        return None
