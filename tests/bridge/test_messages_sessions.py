"""Turn N+1's chat messages begin with the bytes of turn N's, in sessions as Claude Code has them.

A session is generated as it happens: the client asks, the model replies, and each time the client
sends all of it again, in another form: its latest message is blocks, the others are strings where
they can be, ``cache_control`` moves, and the billing header has a new number.  Loaded tools are in
alphabetical place, outputs in any order, and reminders between, which may bring tools; a resumed
session is read from a file; a context that is too long is summarized, and a conversation begins
with the summary.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.wire.json_codec import dumps

from .converting import Converted, Json, of_messages

MODELS = [
    "moonshotai/Kimi-K2.5",
    "kimi-k2-0905",
    "kimi-k3",
    "deepseek-v4",
    "MiniMax-M2.5",
    "qwen3-coder",
    "glm-5",
    "gpt-oss-120b",
    "devstral-medium",
    "some-model",
]
PNG: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}
PDF: Json = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
}
LOADABLE = ["CronList", "Monitor", "mcp__files__read", "WebFetch"]


def text(value: str) -> Json:
    return {"type": "text", "text": value}


@dataclass
class Session:
    draw: Any
    model: str
    system: str = "You are Claude Code."
    messages: list[Json] = field(default_factory=list)
    """In blocks."""
    loaded: list[str] = field(default_factory=list)
    asked: Converted | None = None
    """The latest chat request of the conversation."""
    compared: bool = False
    is_agent: bool = False
    requests: int = 0
    tokens: int = 0

    def token(self) -> str:
        self.tokens += 1
        return f"#{self.tokens}#"

    def some(self) -> bool:
        return bool(self.draw(st.booleans()))

    # The client

    def ask(self, *, more: bool = False) -> None:
        """`more`: the latest message may have become longer."""
        self.requests += 1
        is_resumed = self.some()
        messages = [self.rendered(message, is_resumed) for message in self.messages]
        if not is_resumed:
            messages[-1] = copy.deepcopy(self.messages[-1])
            messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        asked = of_messages(
            *messages,
            model=self.model,
            system=[
                text(f"x-anthropic-billing-header: cc_version=2.1; cch={self.requests:05x};"),
                {**text(self.system), "cache_control": {"type": "ephemeral"}},
                text("Rules."),
            ],
            tools=self.tools(),
            thinking={"type": "adaptive"},
            max_tokens=32000,
            stream=True,
        )
        if self.asked is not None:
            before, functions = self.asked.messages, [*self.asked.functions]
            if more:
                before = before[:-1]
            assert dumps(asked.messages).startswith(dumps(before)[:-1])
            assert [*asked.functions][: len(functions)] == functions
            self.compared = True
        self.asked = asked

    def rendered(self, message: Json, is_resumed: bool) -> Json:
        """A message as it is once it is not the latest one: a string where it can be one."""
        blocks = copy.deepcopy(message["content"])
        for block in blocks:
            inner = block.get("content")
            if isinstance(inner, list) and len(inner) == 1 and inner[0]["type"] == "text":
                block["content"] = inner[0]["text"] if is_resumed else inner
        if len(blocks) == 1 and blocks[0]["type"] == "text" and message["role"] != "assistant":
            return {**message, "content": blocks[0]["text"]}
        return {**message, "content": blocks}

    def tools(self) -> list[Json]:
        names = ["Bash", "Read", "Write", *self.loaded]
        if len(self.loaded) < len(LOADABLE):
            names.append("DeferredToolPlaceholder")
        later = {*self.loaded, "DeferredToolPlaceholder"}
        return [
            {"name": name, "description": name, "input_schema": {"type": "object"}}
            | ({"defer_loading": True} if name in later else {})
            for name in sorted(names)
        ]

    def begin(self) -> None:
        self.asked = None
        self.messages = [{"role": "user", "content": [text(self.token())]}]
        if self.some():
            self.messages[0]["content"].insert(
                0, text("<system-reminder>\nDate\n</system-reminder>")
            )
        if self.some():
            self.messages[0]["content"].append(PNG)
        self.remind()

    def remind(self) -> None:
        if self.some():
            blocks = [text(self.token())]
            if self.some() and self.some():
                blocks.append(self.change())
            self.messages.append({"role": "system", "content": blocks})

    def change(self) -> Json:
        """A tool that comes with its definition, or goes."""
        if self.some():
            return {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}
        definition = {"name": f"late_{self.tokens}", "input_schema": {"type": "object"}}
        tool = {"type": "tool_definition", "definition": definition}
        return {"type": "tool_addition", "tool": tool}

    # The model

    def reply(self) -> list[Json]:
        """Returns its calls."""
        blocks: list[Json] = []
        if self.some():
            blocks.append({"type": "thinking", "thinking": self.token(), "signature": "s"})
        if self.some():
            blocks.append(text(self.draw(st.sampled_from(["", self.token()]))))
        calls = [self.call() for _ in range(self.draw(st.integers(0, 3)))]
        blocks += calls
        if calls and self.some():
            blocks.append(text(self.token()))
        self.messages.append({"role": "assistant", "content": blocks or [text("")]})
        return calls

    def call(self) -> Json:
        names = ["Bash", "Read", "ToolSearch", *([] if self.is_agent else ["Agent"])]
        name = self.draw(st.sampled_from(names))
        call_id = self.draw(st.sampled_from([f"toolu_{self.token()}", "toolu_same"]))
        unparsed = {"__unparsedToolInput": {"raw": '{"a', "len": 3}}
        given = self.draw(st.sampled_from([{"command": self.token()}, {}, unparsed]))
        return {"type": "tool_use", "id": call_id, "name": name, "input": given}

    # What the client does then

    def answer(self, calls: list[Json]) -> None:
        blocks = [self.result(call) for call in self.draw(st.permutations(calls))]
        if blocks and blocks[0]["content"][:1] == [PNG] and self.some():
            blocks.pop(0)
        if self.some() or not blocks:
            blocks.append(text(self.token()))
        if self.some():
            self.remind()
        self.messages.append({"role": "user", "content": blocks})
        self.remind()
        self.remind()

    def result(self, call: Json) -> Json:
        loadable = [name for name in LOADABLE if name not in self.loaded]
        if call["name"] == "Agent":
            Session(self.draw, self.model, "You are an agent.", is_agent=True).work(2)
        if call["name"] == "ToolSearch" and loadable:
            self.loaded.append(self.draw(st.sampled_from(loadable)))
            content: Any = [{"type": "tool_reference", "tool_name": self.loaded[-1]}]
        else:
            content = self.draw(
                st.sampled_from(
                    [[text(self.token())], [text(self.token()), PNG], [PNG], [PDF], [], [text("")]]
                )
            )
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": content}
        return result | ({"is_error": True} if self.some() else {})

    def work(self, turns: int) -> None:
        self.begin()
        self.ask()
        for _ in range(turns):
            self.answer(self.reply())
            self.ask()
            if self.some() and self.some():
                self.compact()

    def compact(self) -> None:
        """The context is too long: the same, with a request for a summary; then it begins anew."""
        latest = self.messages[-1]
        if latest["role"] == "user":
            latest["content"].append(text("Summarize."))
        else:
            self.messages.append({"role": "user", "content": [text("Summarize.")]})
        self.ask(more=True)
        self.begin()
        self.messages[0]["content"].insert(0, text(f"Summary: {self.token()}"))
        self.ask()


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=12)
@given(data=st.data())
def test_a_turn_begins_with_the_bytes_of_the_turn_before(model: str, data: st.DataObject) -> None:
    session = Session(data.draw, model)
    session.work(data.draw(st.integers(1, 5)))
    assert session.compared
