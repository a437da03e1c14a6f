"""Exchanges as the proxy records them, made by the very stages it runs."""

from __future__ import annotations

import json

from dragoman.bridge.responses_reply import responses_reply
from dragoman.chat.repair import ChatRepair
from dragoman.inspect.exchange import Exchange, Job, Step, Timing
from dragoman.inspect.pages.page import Page
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.responses.dialects import OPENAI, Dialect
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import FrameSplitter
from fixtures.server import FOLDER
from tests.bridge.converting import convert
from tests.bridge.replying import feed, feed_body

FRAME_SECONDS = 0.5
"""A frame comes from the upstream every so many seconds."""


def exchange(
    request: bytes, answer: bytes, *, job: Job = "repair", dialect: Dialect = OPENAI
) -> Exchange:
    """A streamed reply, frame by frame through repair and, if asked for, the bridge."""
    evidence = Evidence()
    chat, reply, sent = json.loads(request), None, request
    if job == "bridge":
        conversion = convert(chat, unsupported="drop", evidence=evidence)
        chat, sent = conversion.chat, dumps(conversion.chat)
        evidence.request_left()
        reply = responses_reply(
            conversion.turn, dialect, evidence, response_id="resp_1", created_at=1, clock=float
        )
    stage = ChatRepair(DeclaredTools.of_request(chat), RepairOptions(), evidence, 1)
    out = b"".join(frame.raw for frame in reply.open()) if reply else b""
    splitter = FrameSplitter()
    steps: list[Step] = []
    came = 0
    for frame in [*splitter.feed(answer), *splitter.close(), None]:
        done = stage.close() if frame is None else stage.feed(frame)
        if reply:
            done = [event for chunk in done for event in feed(reply, chunk)]
            done += reply.close() if frame is None else []
        out += b"".join(each.raw for each in done)
        came += len(frame.raw) if frame else 0
        steps.append(Step((len(steps) + 1) * FRAME_SECONDS, came, len(out)))
    timing = Timing(tuple(steps), steps[-1].at, FRAME_SECONDS)
    return Exchange(
        job,
        request,
        sent,
        answer,
        out,
        evidence=evidence,
        timing=timing,
    )


def of_fixture(name: str) -> Exchange:
    """A fixture's chat turn, repaired."""
    folder = FOLDER / name
    return exchange((folder / "request.json").read_bytes(), (folder / "upstream.sse").read_bytes())


def bridged(dialect: Dialect = OPENAI) -> Exchange:
    """Codex's request, answered by a leaked call of its custom tool."""
    request = (FOLDER / "bridge_codex_custom_tools" / "request.json").read_bytes()
    answer = (FOLDER / "agent_codex_patch" / "turn1.sse").read_bytes()
    return exchange(request, answer, job="bridge", dialect=dialect)


def same(body: bytes, *, request: bytes = b"{}", status: int = 200) -> Exchange:
    """A reply, streamed or not, that passed as it came."""
    return Exchange("watch", request, request, body, body, status=status)


def whole(request: bytes, answer: bytes) -> Exchange:
    """A bridged reply that is not streamed."""
    evidence = Evidence()
    conversion = convert(json.loads(request), unsupported="drop", evidence=evidence)
    reply = responses_reply(
        conversion.turn, OPENAI, evidence, response_id="resp_1", created_at=1, clock=float
    )
    feed_body(reply, answer)
    return Exchange("bridge", request, dumps(conversion.chat), answer, dumps(reply.response))


def cured(what: str) -> Evidence:
    """Of a request to which one thing was done."""
    evidence, done = Evidence(), Evidence()
    done.note(what)
    evidence.cure(done)
    evidence.request_left()
    return evidence


def noted(what: str, *, reply: bool = False) -> Evidence:
    """A note on the request, or on the reply."""
    evidence = Evidence()
    evidence.note(what)
    if not reply:
        evidence.request_left()
    return evidence


def text(page: Page) -> str:
    return "\n".join(line.text for line in page)
