"""Clients of Anthropic's Messages API: Claude Code, its SDKs.  Their history holds all that a turn
needs, thoughts as well, so nothing is stored for them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator

from mitmproxy import http

from ...bridge.messages_reply import messages_reply
from ...bridge.reply.converter import ReplyConverter
from ...bridge.request.conversion import Conversion
from ...bridge.request.convert_messages import convert_messages
from ...notes import Evidence
from ..observe.recorder import ClientRequest
from ..options import Settings
from ..routes import Route
from .client_api import BridgedApi, BridgedTurn, WholeRequest, received_body, received_value

_NOT_SENT_ON = re.compile(r"anthropic-.+|x-stainless-.+|x-claude-code-.+|x-app|x-api-key")
"""Headers that a chat host has no use for."""


class MessagesClient(BridgedApi):
    async def read(self, flow: http.HTTPFlow, route: Route, evidence: Evidence) -> WholeRequest:  # noqa: ARG002
        received = await received_body(flow.request)
        return WholeRequest(received, await received_value(received))

    async def read_again(self, sent: ClientRequest, evidence: Evidence) -> WholeRequest:  # noqa: ARG002
        return WholeRequest(sent.body, await received_value(sent.body))

    def convert(
        self, request: WholeRequest, settings: Settings, evidence: Evidence
    ) -> Generator[None, None, Conversion]:
        unsupported = settings.unsupported_tools
        return convert_messages(request.body, unsupported=unsupported, evidence=evidence)

    def to_chat(self, request: http.Request, base: str) -> None:
        request.path = f"{base}/chat/completions"
        as_chat_client(request)

    def reply(self, bridged: BridgedTurn) -> ReplyConverter:
        return messages_reply(
            bridged.turn,
            bridged.record.evidence,
            message_id=f"msg_{uuid.uuid4().hex}",
            errors=bridged.errors,
        )


def as_chat_client(request: http.Request) -> None:
    """Send the headers of a chat client, with the key where chat hosts look for it."""
    key = request.headers.get("x-api-key")
    if key and "authorization" not in request.headers:
        request.headers["authorization"] = f"Bearer {key}"
    for name in set(request.headers):
        if _NOT_SENT_ON.fullmatch(name.lower()):
            del request.headers[name]
