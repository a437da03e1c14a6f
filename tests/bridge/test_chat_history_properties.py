"""What holds for every conversation: nothing lost, one order, and turns that only grow.

A conversation is generated as it happens: the model replies, the client answers, and
each time the client sends all of it again.  Clients here shuffle outputs, forget them,
send them late or twice, and say things in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.responses.envelope import seal
from dragoman.wire.json_codec import dumps

from .converting import Converted, Json, call, converted, function, image, output, said, user

MODELS = ["moonshotai/Kimi-K2.5-TEE", "kimi-k3", "MiniMax-M2.5", "qwen3-coder", "some-model"]
TOKEN = re.compile(r"#\d+#")
"""A text no other text of the conversation contains."""


@dataclass
class Conversation:
    """A conversation under way, and the request of each of its turns."""

    draw: Any
    items: list[Json] = field(default_factory=list)
    requests: list[list[Json]] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    """What was reasoned: it travels sealed."""
    calls: int = 0
    tokens: int = 0

    def token(self) -> str:
        self.tokens += 1
        return f"#{self.tokens}#"

    def ask(self) -> None:
        """The client sends everything and waits for a reply."""
        self.requests.append(list(self.items))

    def reply(self, at_least: int = 0) -> list[str]:
        """The model reasons, speaks and calls; returns the ids of its calls."""
        if self.draw(st.booleans()):
            self.thoughts.append(self.token())
            sealed = seal(self.thoughts[-1])
            self.items.append({"type": "reasoning", "summary": [], "encrypted_content": sealed})
        count = self.draw(st.integers(at_least, 4))
        if self.draw(st.booleans()) or not count:
            self.items.append(said(self.token()))
        ids = []
        for position in range(count):
            self.calls += 1
            # Ids of the K3 kind come again in every turn.
            call_id = self.draw(st.sampled_from([f"call_{self.calls}", f"run:{position}"]))
            arguments = dumps({"x": self.token()}).decode()
            self.items.append(
                self.draw(
                    st.sampled_from(
                        [
                            call(call_id, "run", arguments),
                            call(call_id, "read", arguments, namespace="files"),
                            {
                                "type": "custom_tool_call",
                                "call_id": call_id,
                                "name": "patch",
                                "input": arguments,
                            },
                        ]
                    )
                )
            )
            ids.append(call_id)
            match self.draw(st.integers(0, 9)):
                case 0:
                    self.items.append({"type": "web_search_call", "id": "ws"})
                case 1:
                    self.items.append({"type": "mcp_call", "name": "m", "output": self.token()})
                case 2:
                    self.items.append({"type": "of_2030", "text": self.token()})
        return ids

    def answer(self, ids: list[str], *, orderly: bool = False) -> None:
        """The client answers calls, in its own way, and may say something."""
        pending = list(ids) if orderly else self.draw(st.permutations(ids))
        heard = False
        for call_id in pending:
            mishap = "none" if orderly else self.draw(st.sampled_from(MISHAPS))
            if mishap == "forget":
                self.unanswered.append(call_id)
                continue
            if mishap == "interrupt":
                self.items.append({"role": "developer", "content": self.token()})
            self.items.append(output(call_id, self._output()))
            if mishap == "twice":
                self.items.append(self.items[-1])
            heard = True
        if self.unanswered and self.draw(st.booleans()):
            self.items.append(output(self.unanswered.pop(), self.token()))
            heard = True
        if not orderly and self.draw(st.integers(0, 9)) == 0:
            self.items.append(output("of_no_call", self.token()))
            heard = True
        if not heard or self.draw(st.booleans()):
            self.items.append(user(self.token()))

    def _output(self) -> Any:
        text = {"type": "input_text", "text": self.token()}
        parts = [text, image(self.token())]
        as_text = dumps(parts).decode()
        return self.draw(st.sampled_from([text["text"], [text], parts, as_text]))


MISHAPS = ["none"] * 6 + ["forget", "interrupt", "twice"]


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    conversation = Conversation(draw)
    conversation.items.append({"role": "developer", "content": conversation.token()})
    conversation.items.append(user(conversation.token()))
    conversation.ask()
    for _ in range(draw(st.integers(1, 8))):
        conversation.answer(conversation.reply())
        conversation.ask()
    return conversation


def of_items(items: list[Json], model: str, **fields: Any) -> Converted:
    return converted({"model": model, "instructions": "Help.", "input": items, **fields})


def messages_bytes(made: Converted) -> bytes:
    """The request up to the end of the last message, the array still open."""
    body = dumps(made.chat)
    start = dumps({"model": made.chat["model"], "messages": made.messages})
    assert start.endswith(b"]}")
    assert body.startswith(start[:-1])
    return start[:-2]


@given(conversations(), st.sampled_from(MODELS))
def test_the_messages_of_a_turn_begin_with_those_of_the_turn_before(
    conversation: Conversation, model: str
) -> None:
    before = b""
    for items in conversation.requests:
        now = messages_bytes(of_items(items, model))
        assert now.startswith(before)
        before = now


@settings(max_examples=15)
@given(st.data(), st.sampled_from(MODELS))
def test_thirty_calls_turn_by_turn_only_append(data: st.DataObject, model: str) -> None:
    conversation = Conversation(data.draw)
    conversation.items.append(user("start"))
    conversation.ask()
    while conversation.calls < 30:
        conversation.answer(conversation.reply(at_least=1), orderly=True)
        conversation.ask()
    before = b""
    for turn, items in enumerate(conversation.requests):
        # The tools come and go; the messages do not care.
        made = of_items(items, model, tools=[function(f"tool_{turn}")] if turn % 3 else [])
        now = messages_bytes(made)
        assert now.startswith(before)
        assert len(now) > len(before)
        before = now
    calls = [call for message in made.messages for call in message.get("tool_calls", [])]
    assert len(calls) == conversation.calls


@given(conversations(), st.sampled_from(MODELS))
def test_every_call_is_answered_once_directly_behind_its_message_in_order(
    conversation: Conversation, model: str
) -> None:
    messages = of_items(conversation.items, model).messages
    rest = iter(messages)
    for message in rest:
        assert message["role"] != "tool", "a tool message without its call"
        called = [call["id"] for call in message.get("tool_calls", [])]
        assert len(set(called)) == len(called)
        assert called == [answered(rest) for _ in called]
    total = sum(len(message.get("tool_calls", [])) for message in messages)
    assert total == conversation.calls


def answered(rest: Iterator[Json]) -> str:
    message = next(rest)
    assert message["role"] == "tool"
    call_id: str = message["tool_call_id"]
    return call_id


@given(conversations(), st.sampled_from(MODELS[:2]))
def test_no_text_is_lost_and_none_is_doubled(conversation: Conversation, model: str) -> None:
    sent = dumps(of_items(conversation.items, model).messages).decode()
    told = set(TOKEN.findall(dumps(conversation.items).decode())) | set(conversation.thoughts)
    assert sorted(TOKEN.findall(sent)) == sorted(told)


@given(conversations())
def test_kimi_k2_counts_all_calls_and_every_message_with_calls_has_reasoning(
    conversation: Conversation,
) -> None:
    messages = of_items(conversation.items, MODELS[0]).messages
    calling = [message for message in messages if "tool_calls" in message]
    assert all(isinstance(message["reasoning_content"], str) for message in calling)
    calls = [call for message in calling for call in message["tool_calls"]]
    assert [call["id"] for call in calls] == [
        f"functions.{call['function']['name']}:{number}" for number, call in enumerate(calls)
    ]


@given(conversations(), st.sampled_from(MODELS))
def test_the_same_request_gives_the_same_bytes(conversation: Conversation, model: str) -> None:
    once, again = (dumps(of_items(conversation.items, model).chat) for _ in range(2))
    assert once == again


@pytest.mark.parametrize("model", MODELS)
def test_a_reply_that_failed_and_was_asked_for_again_only_appends(model: str) -> None:
    items = [user("a"), call("c"), output("c", "1")]
    before = messages_bytes(of_items(items, model))
    assert messages_bytes(of_items([*items, user("again?")], model)).startswith(before)
