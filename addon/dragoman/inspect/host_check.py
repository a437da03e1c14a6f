"""What a host is asked to see whether it needs Dragoman, and what its answers say.

A handful of short requests: a tool call streamed, whole, with thinking, a turn that has its result,
and an empty one to each other API.  The questions are made, and the answers judged, without any
connection; `proxy.command.check` sends them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..bridge.cure.chat_request import cure_request
from ..bridge.host_requirements import family_of
from ..bridge.reader_writer_pairs import repair_whole
from ..chat.reader import ChatReader
from ..notes import Evidence, printable
from ..repair.declared_tools import DeclaredTools
from ..repair.repair_options import RepairOptions
from ..reply.words import CallBegin, Text
from ..wire.errors import ErrorObject, error_object
from ..wire.json_codec import Json, NotJson, loads
from ..wire.sse import Document, is_event_stream, split
from .refusals import refusal_in

TOOL = {
    "type": "function",
    "function": {
        "name": "list_files",
        "description": "List the files in a folder.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "An absolute path."}},
            "required": ["path"],
        },
    },
}
ASK = {"role": "user", "content": "Call the tool list_files for the folder /srv. Do not answer."}
CALLED = (
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "list_files:0",
                "type": "function",
                "function": {"name": "list_files", "arguments": '{"path": "/srv"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "list_files:0", "content": "notes.txt"},
)
"""The call and its result, as clients send them that keep no thoughts."""
FIRST, LAST = "a tool call, streamed", "a turn with the result"
RESPONSES, MESSAGES = "Responses API", "Messages API"
"""What some questions are about."""
MAX_TOKENS = 1500
"""Of an answer: enough to think shortly and call."""
MAX_SHOWN = 160
"""Characters of a host's words that are shown."""
_NO_MODEL = re.compile(
    r"model.{0,80}(not (exist|found|available|supported)|unknown|invalid|no such|does not)"
    r"|(unknown|invalid|no such|unsupported) model",
    re.IGNORECASE,
)


class Outcome(StrEnum):
    CALL = "a call"
    LEAK = "leaked"
    TEXT = "text, no call"
    REFUSED = "refused"
    THERE = "there"
    MISSING = "not there"
    SILENT = "no answer"
    FAILED = "failed"


class Fatal(StrEnum):
    """Why no further question has a sense."""

    KEY = "The host does not take the key"
    MODEL = "The host does not know the model"
    PATH = "The host has no Chat Completions at this address"


@dataclass(frozen=True, slots=True)
class Question:
    what: str
    path: str
    """Behind the base URL."""
    body: Json


@dataclass(frozen=True, slots=True)
class Answer:
    """What an answer to a question says."""

    what: str
    outcome: Outcome
    detail: str = ""
    """In words: the formats of leaked calls, or what the host says."""
    cured: bool = False
    """Whether Dragoman sends what was refused in another form."""
    fatal: Fatal | None = None

    @property
    def goes_on(self) -> bool:
        """Whether, after this first answer, there is anything more to ask."""
        return self.fatal is None and self.outcome is not Outcome.SILENT


def questions(model: str) -> Iterator[Question]:
    """All that a host is asked."""
    family = family_of(model)
    body: Json = {"model": model, "messages": [ASK], "tools": [TOOL]}
    body[family.token_limit] = MAX_TOKENS
    chat, streamed = "/chat/completions", {"stream": True}
    yield Question(FIRST, chat, body | streamed)
    yield Question("a tool call, whole", chat, body | {"stream": False})
    if family.thinking_off != {}:
        off = family.thinking_off or {}
        thinks: Json = {"reasoning_effort": family.effort("medium")}
        if "thinking" in off:
            thinks = {"thinking": {"type": "enabled"}}
        yield Question("a tool call, with thinking", chat, body | streamed | thinks)
        body = body | thinks
    turn = {"messages": [ASK, *CALLED]}
    yield Question(LAST, chat, body | streamed | turn)
    yield Question(RESPONSES, "/responses", {})
    yield Question(MESSAGES, "/messages", {})


def judged(question: Question, status: int, body: bytes) -> Answer:
    """What the host's answer says; `status` 0: there was none in time."""
    if not question.body:
        return Answer(question.what, _presence(status, body))
    if status == 0:
        return Answer(question.what, Outcome.SILENT)
    if status >= 400:
        return _refused(question, status, body)
    tools = DeclaredTools.of_request(question.body)
    evidence = Evidence()
    said = _said(body, tools)
    if said.error:
        return Answer(question.what, Outcome.FAILED, printable(said.error, MAX_SHOWN))
    repair_whole(body, tools, RepairOptions(), evidence, 0)
    if leaked := ", ".join(
        f"{name} ×{n}" if n > 1 else name for name, n in evidence.leaked.items()
    ):
        return Answer(question.what, Outcome.LEAK, f"as {leaked}")
    if said.calls:
        return Answer(question.what, Outcome.CALL, "")
    if not said.text:
        return Answer(question.what, Outcome.TEXT, "an empty answer")
    detail = f"{evidence.left} markers left as text" if evidence.left else ""
    answered = question.what == LAST
    return Answer(question.what, Outcome.THERE if answered else Outcome.TEXT, detail)


def _presence(status: int, body: bytes) -> Outcome:
    """Whether an API is there, by the answer to an empty request: one that has it refuses that."""
    if status == 0:
        return Outcome.SILENT
    try:
        is_json = isinstance(loads(body), dict)
    except NotJson:
        is_json = False
    return Outcome.THERE if is_json and status not in (404, 405, 501) else Outcome.MISSING


def _refused(question: Question, status: int, body: bytes) -> Answer:
    error = _error(body)
    text = " ".join(filter(None, (error.code, error.type, error.message)))
    known = refusal_in(text)
    words = printable(error.message, MAX_SHOWN) or "no reason given"
    fatal = _fatal(status, error.code, text) if known is None and question.what == FIRST else None
    detail = f"{status}: {known.name}: {words}" if known else f"{status}: {words}"
    changes = _is_changed(question.body)
    return Answer(question.what, Outcome.REFUSED, detail, changes, fatal)


def _fatal(status: int, code: str, text: str) -> Fatal | None:
    """Why the first question was refused, if all others would be."""
    if status in (401, 403):
        return Fatal.KEY
    if code == "model_not_found" or _NO_MODEL.search(text):
        return Fatal.MODEL
    return Fatal.PATH if status in (404, 405) else None


def _is_changed(body: Json) -> bool:
    """Whether the cure would have sent another request."""
    work = cure_request(body, family_of(body["model"]), Evidence())
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value.request is not body


def _error(body: bytes) -> ErrorObject:
    try:
        return error_object(loads(body))
    except NotJson:
        return ErrorObject(message=body[:MAX_SHOWN].decode(errors="replace"))


@dataclass(slots=True)
class _Said:
    calls: Counter[str] = field(default_factory=Counter)
    text: bool = False
    error: str = ""


def _said(body: bytes, tools: DeclaredTools) -> _Said:
    """What the host itself has said."""
    said, reader = _Said(), ChatReader(tools.names)
    for frame in split(body) if is_event_stream(body) else [Document(body)]:
        more = reader.more(frame)
        deltas = [reader.delta(*more)] if more else reader.read(frame)
        for delta in deltas:
            if isinstance(delta, CallBegin):
                said.calls[delta.name] += 1
            elif isinstance(delta, Text):
                said.text = said.text or bool(delta.text.strip())
        value: Any = reader.value
        if isinstance(value, dict) and value.get("error"):
            said.error = error_object(value).message or "an error without words"
    return said


def advice(answers: list[Answer], command: str) -> str:
    """Whether the host needs Dragoman, and why; `command` starts it."""
    outcomes = {each.what: each.outcome for each in answers}
    clients = {RESPONSES: "Codex", MESSAGES: "Claude Code"}
    reasons = {
        "its calls leak as text": Outcome.LEAK in outcomes.values(),
        "it refuses what can be sent in another form": any(each.cured for each in answers),
        **{
            f"{client} speaks only an API that it does not have": outcomes.get(api)
            is Outcome.MISSING
            for api, client in clients.items()
        },
    }
    why = [reason for reason, holds in reasons.items() if holds]
    return f"{command}\n({'; '.join(why)})" if why else ""


def as_json(url: str, model: str, answers: list[Answer], start: str) -> str:
    """All of it for a program."""
    listed = [
        {"what": a.what, "outcome": a.outcome.value, "detail": a.detail, "cured": a.cured}
        for a in answers
    ]
    return json.dumps({"url": url, "model": model, "answers": listed, "start": start}, indent=2)
