"""Asks an upstream whether it speaks the Responses API.

``POST {}`` is sent to the address of a client's request, with its headers, in its client's proxy
mode.  The status is the answer; only of a 404 or 405 the body is read, to see whether it names a
model.  So no token is generated.  The question is a flow that addons and users can see, sent by
mitmproxy's own `ReplayHandler`.  That takes the mode from an option, has no time-out, and waits for
the end of the reply: hence `_handler` and `Question._stop`.  As `http_stream`, this uses internals
of mitmproxy.
"""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from typing import cast

from mitmproxy import ctx, http
from mitmproxy.flow import Error
from mitmproxy.options import Options

from .body_clues import names_something
from .http_headers import set_json
from .mitm.private import QUESTIONS, require
from .observe.monitor import name_of
from .observe.refresh import show
from .options import OptionsOverlay
from .response_owner import asker_of, is_anonymous

try:
    require(QUESTIONS)
    from mitmproxy.addons.clientplayback import ReplayHandler
except (ImportError, AttributeError) as missing:
    ASKING_MISSING = str(missing)
else:
    ASKING_MISSING = ""

logger = logging.getLogger(__name__)

ANSWER = 5.0
"""Seconds to wait for an answer: a client waits, too."""
LATE = 300.0
"""Seconds after which an answer counts no more: a host may take minutes to start."""
MAX_NOT_FOUND = "64k"
"""The size of a 404 that is read: a longer one is a page for people."""
_MARK = "dragoman_question"
"""In a flow's metadata: mitmproxy saves it, so a question that is replayed is still known."""


class Speaks(StrEnum):
    """What is known of an address."""

    UNKNOWN = ""
    CHAT = "chat"
    CHAT_ANONYMOUS = "chat, without a credential"
    CLAIMED = "responses, when asked"
    """No real request was answered yet."""
    RESPONSES = "responses"


_MEANS = {
    Speaks.UNKNOWN: "so that is not known",
    Speaks.CHAT: "so only Chat Completions: bridged from now on",
    Speaks.CHAT_ANONYMOUS: "so only Chat Completions: bridged from now on",
    Speaks.CLAIMED: "so it does",
}


class Question:
    """A question about the upstream of a client's `flow`."""

    task: asyncio.Task[None]
    """Sends it: `speaks` is final when it is done."""

    def __init__(self, flow: http.HTTPFlow) -> None:
        self.flow = _question(flow)
        self.late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when no request waits for the answer any more, which may still come."""
        self.asker = asker_of(flow.request)
        self.speaks = Speaks.UNKNOWN
        self.by_credentials = False
        """Whether other credentials may get another answer."""
        self._has_reply = self._timed_out = False

    async def send(self) -> None:
        """Send it, and wait for the answer."""
        handler = _handler(self.flow)
        replay = asyncio.get_running_loop().create_task(handler.replay())
        await asyncio.wait({replay}, timeout=ANSWER)
        if not (replay.done() or self._has_reply or self.flow.intercepted):
            self._log(f"no answer in {ANSWER:.0f} seconds, so that is not known yet")
            self.late.set_result(None)
            await asyncio.wait({replay}, timeout=LATE)
        if not replay.done():
            await self._stop(handler, replay)
        if not replay.cancelled() and (error := replay.exception()):
            logger.error("%s: could not be asked: %s", name_of(self.flow), error)
        self._log(self._result())

    def _log(self, result: str) -> None:
        self.flow.comment = f"asked whether it speaks Responses: {result}"
        logger.info("%s: %s", name_of(self.flow), self.flow.comment)
        show(self.flow)

    async def _stop(self, handler: ReplayHandler, replay: asyncio.Task[None]) -> None:
        flow, self._timed_out = self.flow, True
        if flow.intercepted:
            flow.error = Error(Error.KILLED_MESSAGE)  # it does not leave when it is resumed
            flow.resume()
        for transport in list(handler.transports.values()):
            if transport.handler is not None:
                transport.handler.cancel("no answer is waited for any more")
        _, pending = await asyncio.wait({replay}, timeout=1)
        if pending:
            replay.cancel()
            await asyncio.wait(pending)

    # The hooks of the question's own flow

    def responseheaders(self) -> None:
        response = self.flow.response
        if response is None or response.data.content is not None:
            return  # another addon has answered
        self._has_reply = True
        if response.status_code in (404, 405):
            response.stream = False
        else:
            self.flow.kill()

    def ended(self) -> None:
        flow, response = self.flow, self.flow.response
        if self._has_reply and response is not None:
            flow.error = None  # of the kill in `responseheaders`, or of a body that is too large
            status = response.status_code
            self.by_credentials = 400 <= status < 500
            if 200 <= status < 300 or status in (400, 422):
                self.speaks = Speaks.CLAIMED
            elif status in (404, 405) and not names_something(flow.request, response):
                self.speaks = chat_only(flow.request)
        flow.comment = f"asked whether it speaks Responses: {self._result()}"

    def _result(self) -> str:
        """The answer, and what it means."""
        flow, response = self.flow, self.flow.response
        if response is not None:
            status = f"HTTP {response.status_code}"
            answer = status if self._has_reply else "answered by another addon"
        else:
            if self._timed_out or flow.error is None:
                seconds = ANSWER + (LATE if self.late.done() else 0)
                flow.error = Error(f"no answer in {seconds:.0f} seconds")
            answer = flow.error.msg
        return f"{answer}, {_MEANS[self.speaks]}"


def _question(flow: http.HTTPFlow) -> http.HTTPFlow:
    """The flow of a question about the upstream of `flow`."""
    question: http.HTTPFlow = flow.copy()
    question.is_replay = "request"
    question.comment = question.marked = ""
    question.metadata = {_MARK: True}
    for name in set(question.request.headers):
        # An idempotency key is that of the client's request.
        if "idempotency" in name.lower() or name.lower() in ("expect", "transfer-encoding"):
            del question.request.headers[name]
    set_json(question.request, b"{}")
    return question


def _handler(flow: http.HTTPFlow) -> ReplayHandler:
    options = OptionsOverlay(
        ctx.options,
        mode=[flow.client_conn.proxy_mode.full_spec],
        body_size_limit=MAX_NOT_FOUND,
        stream_large_bodies=None,
    )
    handler = ReplayHandler(flow, cast(Options, options))
    server = handler.layer.context.server
    if server.tls and flow.server_conn.sni:
        server.sni = flow.server_conn.sni  # as the client's own request has it
    return handler


def chat_only(request: http.Request) -> Speaks:
    """What is known when this request was refused."""
    return Speaks.CHAT_ANONYMOUS if is_anonymous(request) else Speaks.CHAT


def is_question(flow: http.HTTPFlow) -> bool:
    """Whether this is a question of ours, or a replay of one."""
    return not ASKING_MISSING and _MARK in flow.metadata
