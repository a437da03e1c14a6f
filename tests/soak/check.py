"""Whether a client received what its stream meant, and how long each event was under way.

Runs in a process of its own, at a low priority, so that the load is not disturbed.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Set
from dataclasses import dataclass, field

from dragoman.responses.dialects import DIALECTS
from dragoman.wire.sse import Frame
from tests.bridge.grammar import Story, check, check_prefix
from tests.repair.streams import read
from tests.soak.client import Received
from tests.soak.plan import Job, Meant, Plan, plan_of

_TAG = re.compile(rb"~(\d+)~")
_FRAME = re.compile(rb"(?s).*?(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
HEARTBEAT = b": waiting for the upstream\n\n"
DELTAS = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning.delta": "reasoning",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one stream."""

    name: str
    job: Job
    fate: str
    wrong: str
    """What differed; empty: nothing."""
    events: int
    delays: array[float] = field(default_factory=lambda: array("d"))
    """Seconds from the upstream's write of an event to the client's read of its text."""


def verdict(name: str, received: Received, sent: array[float]) -> Verdict:
    """Compare a reply with its stream; `sent` is when each event was written."""
    plan = plan_of(name)
    body, spans = b"", list[tuple[int, int]]()
    try:
        body, spans = _body_of(bytes(received.raw))
        wrong = _compare(plan, received, body, sent)
    except AssertionError as error:
        wrong = f"not a stream that may be: {error or 'see tests/bridge/grammar.py'}"
    except Exception as error:  # whatever cannot be read is a failure of the stream
        wrong = f"cannot be read: {error!r}"
    if wrong:
        wrong += f"; the reply ({received.end}) ended with {bytes(received.raw[-400:])!r}"
    delays = array("d")
    for tag, end in _tags(body).items():
        if tag < len(sent) and sent[tag]:
            delays.append(_arrival(end, spans, received) - sent[tag])
    return Verdict(name, plan.job, plan.fate, wrong, sum(map(bool, sent)), delays)


def _body_of(raw: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """The body of a chunked reply, and for each chunk where it begins: in it, in `raw`."""
    head, blank, _ = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") or not raw, f"the reply begins with {raw[:400]!r}"
    at = len(head) + len(blank)
    pieces, spans, size = [], [], 0
    while (line := raw.find(b"\r\n", at)) > 0:
        length = int(raw[at:line], 16)
        at = line + 2
        if not length:
            assert raw[at:] in (b"\r\n", b""), "bytes behind the end"
            break
        piece = raw[at : at + length]
        spans.append((size, at))
        pieces.append(piece)
        size += len(piece)
        at += length
        assert raw[at : at + 2] in (b"\r\n", b"\r", b""), "a chunk that is longer than it says"
        at += 2
    return b"".join(pieces), spans


def _tags(body: bytes) -> dict[int, int]:
    """Where in the body each number first stands whole."""
    found: dict[int, int] = {}
    for match in _TAG.finditer(body):
        found.setdefault(int(match[1]), match.end())
    return found


def _arrival(end: int, spans: list[tuple[int, int]], received: Received) -> float:
    at, raw_at = spans[bisect_left(spans, (end, 0)) - 1]
    return received.times[bisect_left(received.sizes, raw_at + end - at)]


def _compare(plan: Plan, received: Received, body: bytes, sent: array[float]) -> str:
    if received.end == "hung":
        return "the reply hangs"
    died = plan.fate in ("reset", "close")
    ended = {"whole": "complete", "leave": "left"}.get(plan.fate, "broken")
    # A client that is slower to leave than the stream to end has a whole stream.
    if received.end != ended and not (plan.fate == "leave" and received.end == "complete"):
        return f"the reply is {received.end}"
    whole = received.end == "complete" and not died
    if plan.job == "plain":
        return _differs(body, plan.body, whole)
    if plan.fate == "close" and (missing := lost(plan, body, {t for t in plan.tagged if sent[t]})):
        return f"events that were sent are lost: {missing}"
    if plan.job == "bridge":
        return compare_bridged(plan, body, whole=whole, died=died)
    return compare_repaired(plan, body, whole=whole, died=died)


def lost(plan: Plan, body: bytes, sent: Set[int]) -> list[int]:
    """Which of the events that were `sent` have not come with their text, and should have."""
    return sorted((plan.tagged & sent) - _tags(body).keys())


def _differs(body: bytes, meant: bytes, whole: bool) -> str:
    if body == meant or (not whole and meant.startswith(body)):
        return ""
    pairs = zip(body, meant, strict=False)
    same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(body), len(meant)))
    return f"different from byte {same} on: {body[same : same + 80]!r}"


def compare_repaired(plan: Plan, body: bytes, *, whole: bool, died: bool) -> str:
    """What is wrong with a repaired reply; `died`: its upstream broke off."""
    body = body.replace(HEARTBEAT, b"")
    if not plan.held and not died:
        return _differs(body, plan.body, whole)
    frames = [match[0] for match in _FRAME.finditer(body)]
    # Behind a frame that was cut after its last CR comes an LF, which is no frame.
    frames = [frame for frame in frames if frame.strip()]
    values = [frame.partition(b"data: ")[2].rstrip() for frame in frames]
    errors = [at for at, value in enumerate(values) if b'"error"' in value[:10]]
    if errors:
        return f"error frames at {errors} of {len(frames)}"
    said = read(b"".join(frames))
    if died and any(said.finish):
        return f"a reply that was cut off has finish_reason {said.finish}"
    calls = tuple((call["name"], call["arguments"]) for call in said.calls)
    got = Meant(said.reasoning, said.content, calls)
    if not whole:
        return got.missing_in(plan.meant, plan.held if died else ())
    if said.finish != ["tool_calls" if plan.meant.calls else "stop"]:
        return f"finish_reason is {said.finish}"
    if values[-1] != b"[DONE]" or json.loads(values[-2])["usage"]["total_tokens"] < 11:
        return "it does not end with its usage and [DONE]"
    return got.differs_from(plan.meant)


def compare_bridged(plan: Plan, body: bytes, *, whole: bool, died: bool) -> str:
    """What is wrong with a bridged reply; `died`: its upstream broke off."""
    frames = [Frame(raw + b"\n\n") for raw in body.split(b"\n\n")]
    rest = frames.pop().raw[:-2]
    dialect = DIALECTS[plan.dialect]
    story = check(frames, dialect) if whole else check_prefix(frames, dialect)
    got = _told_in(story)
    if died and story.response["status"] != "in_progress":
        return f"a reply that was cut off is {story.response['status']}"
    if not whole:
        return got.missing_in(plan.meant, plan.held if died else ())
    if rest:
        return f"the stream ends with {rest!r}"
    terminal = story.events[-1]["type"]
    if terminal != "response.completed":
        return f"the terminal is {terminal}"
    if story.response["usage"]["input_tokens"] != 11:
        return f"the usage is {story.response['usage']}"
    return got.differs_from(plan.meant)


def _told_in(story: Story) -> Meant:
    """What the deltas say; `check` has compared them with the items."""
    texts = {"text": "", "reasoning": ""}
    calls: list[tuple[str, str]] = []
    for event in story.events:
        kind = event["type"]
        if kind in DELTAS:
            texts[DELTAS[kind]] += event["delta"]
        elif kind == "response.function_call_arguments.delta":
            name, arguments = calls[-1]
            calls[-1] = name, arguments + event["delta"]
        elif kind == "response.output_item.added":
            item = event["item"]
            if item["type"] in ("function_call", "tool_call"):
                calls.append((item.get("function", item)["name"], ""))
    return Meant(texts["reasoning"], texts["text"], tuple(calls))
