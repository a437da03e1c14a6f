"""The stream of a reply: which commands each event brings, in which order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from mitmproxy.test import tflow

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.proxy.flows.live_stream import Break, Command, End, Keep, Pause, ReplyContext
from dragoman.proxy.flows.repair_reply import RepairStream
from dragoman.proxy.observe.recorder import FlowRecorder
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import LARGE
from tests.repair.streams import chunk, sse
from tests.repair.turns import REQUEST

LEAK = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|>'
STOP, DONE = sse([chunk({}, "stop")], done=False), b"data: [DONE]\n\n"
CALLS = sse([chunk({}, "tool_calls")], done=False)


def said(text: str, **more: str) -> bytes:
    return sse([chunk({"content": text, **more})], done=False)


def stream(*, keeps: bool = False, labelled: bool = True) -> RepairStream:
    record = FlowRecorder(tflow.tflow(resp=True), "repair", keep=10_000_000)
    repair = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), 1)
    context = ReplyContext("", record, labelled=labelled)
    return RepairStream(repair, context, reports_end=True, keeps=keeps)


def kinds(commands: Iterable[Command]) -> list[str]:
    return [type(each).__name__ for each in commands if each != Pause()]


def test_bytes_alone_are_a_list() -> None:
    live = stream()
    assert live.receive(said("Hi.")) == [said("Hi.")]
    assert live.receive(said("<|tool_calls_section_begin|>")) == []


def test_the_end_of_the_upstreams_body_ends_a_reply_that_is_whole_and_breaks_off_another() -> None:
    whole, cut = stream(), stream()
    whole.receive(said("Hi.") + STOP + DONE)
    assert list(whole.receive(b"")) == [Pause(), End()]
    cut.receive(said("Hi."))
    *_, last = cut.receive(b"")
    assert isinstance(last, Break)


def test_an_upstream_that_fails_breaks_off_a_reply_unless_its_turn_had_ended() -> None:
    cut, ended = stream(), stream()
    cut.receive(said("Hi."))
    *_, last = cut.fail("reset")
    assert last == Break("The upstream broke off: reset (connection error)")
    ended.receive(said("Hi.") + STOP)
    assert list(ended.fail("reset")) == [DONE, Pause(), End()]


def test_a_turn_that_is_kept_is_kept_before_its_end_is_sent() -> None:
    live = stream(keeps=True)
    live.receive(said("", reasoning_content="I look."))
    commands = [*live.receive(said(LEAK)), *live.receive(CALLS), *live.receive(DONE)]
    at = commands.index(Keep())
    before, after = commands[:at], commands[at + 1 :]
    assert b'"tool_calls"' in b"".join(each for each in before if isinstance(each, bytes))
    assert any(b'"finish_reason": "tool_calls"' in each for each in after if type(each) is bytes)
    assert kinds(commands).count("Keep") == 1
    sent = b"".join(each for each in commands if isinstance(each, bytes))
    assert live._record.reply.client.kept.endswith(sent[-200:]), "recorded, too"


def test_a_reply_that_is_no_stream_is_kept_before_any_of_it_is_sent() -> None:
    live = stream(keeps=True, labelled=False)
    message = {"role": "assistant", "content": "Hi."}
    body: dict[str, Any] = {"object": "chat.completion", "choices": [{"index": 0}]}
    body["choices"][0] |= {"message": message, "finish_reason": "stop"}
    assert live.receive(json.dumps(body).encode()) == []
    assert kinds(live.receive(b"")) == ["Keep", "bytes", "End"]


def test_after_each_large_event_there_is_a_pause() -> None:
    large = said("word " * LARGE)
    commands = list(stream().receive(large * 3 + said("Hi.")))
    assert kinds(commands) == ["bytes"] * 4
    assert commands.count(Pause()) >= 4
    sent = b"".join(each for each in commands if isinstance(each, bytes))
    assert sent == large * 3 + said("Hi.")
    assert b"".join(stream()(large * 3 + said("Hi."))) == sent, "without our layer, too"


def test_a_fault_after_a_change_breaks_off_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    live = stream()
    list(live.receive(said("Now. ") + said(LEAK)))
    monkeypatch.setattr(live._repair, "feed", lambda _: 1 / 0)
    assert list(live.receive(said("more"))) == [Pause(), Break("A fault in Dragoman.")]
    assert live(said("more")) == []
