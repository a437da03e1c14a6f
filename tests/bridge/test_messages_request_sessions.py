"""Turn N+1's messages begin with the bytes of turn N's, in generated sessions of a Messages client
at a native host: outputs in any order, reminders at every place, first as blocks and then as
strings, blocks that only Anthropic reads, and a billing header that differs in each request."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.cure.messages_request import cure_messages
from dragoman.bridge.host_requirements import family_of
from dragoman.notes import Evidence
from dragoman.wire.json_codec import dumps, loads

from .converting import drained
from .messages_streams import REQUEST, Json

MODELS = ["kimi-k2.5", "kimi-k3", "kimi-k2-0905", "deepseek-v4", "MiniMax-M2.5", "qwen3-coder"]
MODELS += ["glm-5.2", "some-model", "claude-sonnet-5"]
IMAGE: Json = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
FOREIGN: list[Json] = [
    {"type": "document", "title": "A", "source": {"type": "text", "data": "One."}},
    {"type": "document", "source": {"type": "content", "content": [IMAGE]}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}},
    {"type": "search_result", "title": "T", "content": [{"type": "text", "text": "One."}]},
    {"type": "tool_reference", "tool_name": "ls"},
    {"type": "server_tool_use", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "content": [{"title": "T", "url": "https://example.com"}]},
]


def text(said: str) -> Json:
    return {"type": "text", "text": said}


words = st.sampled_from(["Yes.", "", "Look.\n", "é", '"'])
systems = st.lists(
    st.builds(lambda said: {"role": "system", "content": [text(said)]}, words), max_size=2
)
contents = st.lists(st.one_of(words.map(text), st.sampled_from([*FOREIGN, IMAGE])), max_size=3)
thoughts = st.sampled_from(
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "x"},
        text("I look."),
    ]
)


@st.composite
def calling(draw: Any) -> tuple[Json, list[Json]]:
    """A message with calls, and what the client says next."""
    names = draw(
        st.lists(st.sampled_from(["ls", "bash", "mcp__files__read"]), min_size=1, max_size=3)
    )
    calls = [
        {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": {"command": "ls"}}
        for at, name in enumerate(names)
    ]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": draw(st.one_of(words, contents)),
        }
        for call in draw(st.permutations(calls))
    ]
    cut = draw(st.integers(0, len(results) - 1))
    said = [{"role": "user", "content": part} for part in (results[:cut], results[cut:]) if part]
    said[-1]["content"] = [*said[-1]["content"], *draw(st.lists(words.map(text), max_size=1))]
    said = [*draw(systems), said[0], *draw(systems), *said[1:], *draw(systems)]
    assistant = {"role": "assistant", "content": [*draw(st.lists(thoughts, max_size=2)), *calls]}
    return assistant, said


@st.composite
def answering(draw: Any) -> tuple[Json, list[Json]]:
    content = [text("Done."), *draw(st.lists(st.sampled_from(FOREIGN), max_size=1))]
    asked = draw(st.one_of(words, contents.map(lambda blocks: [text("And?"), *blocks])))
    return {"role": "assistant", "content": content}, [
        {"role": "user", "content": asked},
        *draw(systems),
    ]


def as_sent(messages: list[Json], number: int, model: str) -> Json:
    """A request of Claude Code's: a message of the system is blocks while it is the last."""
    billing = text(f"x-anthropic-billing-header: cc_version=2.1.153; cch={number:05x};")
    earlier = [
        {**each, "content": each["content"][0]["text"]} if each["role"] == "system" else each
        for each in messages[:-1]
    ]
    tools = [{**REQUEST["tools"][0], "name": "ls"}]
    request = {**REQUEST, "model": model, "tools": tools, "system": [billing, text("Be brief.")]}
    sent: Json = loads(dumps({**request, "messages": [*earlier, *messages[-1:]]}))
    return sent


def cured(request: Json, model: str) -> Json:
    made = drained(cure_messages(request, family_of(model), Evidence())).request
    assert (made is request) == (made == request)
    return made


turns = st.lists(st.one_of(calling(), answering()), min_size=1, max_size=6)


@given(st.sampled_from(MODELS), turns)
def test_each_request_begins_with_the_one_before(
    model: str, session: list[tuple[Json, list[Json]]]
) -> None:
    messages: list[Json] = [{"role": "user", "content": "List the files."}]
    before, fields = b"[", b""
    for number in range(len(session) + 1):
        request = as_sent(messages, number, model)
        sent = cured(request, model)
        rest = dumps({name: value for name, value in sent.items() if name != "messages"})
        assert rest == (fields or rest) and b"billing" not in rest
        fields = rest
        if family_of(model).is_strict:
            said = dumps(sent["messages"])
            assert said.startswith(before)
            before = said[:-1]
            assert not any(each["role"] == "system" for each in sent["messages"])
            # What has been cured is taken as it is.
            assert cured(sent, model)["messages"] == sent["messages"]
        else:
            assert sent["messages"] is request["messages"]
        if number < len(session):
            assistant, said_next = session[number]
            messages = [*messages, assistant, *said_next]
