"""The reasoning of past turns: read off a reply, kept, and found again by the next request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.bridge.host_requirements import family_of
from dragoman.bridge.reader_writer_pairs import read_reply, turn_reader
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.facts import ReplyReader
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import RepairStage
from dragoman.stored import turn_reasoning
from dragoman.stored.store import Store
from dragoman.stored.turn_reasoning import (
    History,
    LackingMessage,
    calls_of,
    keep,
    recall,
    with_reasoning,
)
from dragoman.wire.chat_calls import CallDelta
from dragoman.wire.json_codec import dumps
from dragoman.wire.reply_bounds import MAX_CHECKED, MAX_REPLY
from tests.bridge.converting import cured, drained
from tests.repair.streams import chunk, read, repair_whole, sse
from tests.stored.backends import Backend, SqliteBackend

OWNER, OTHER = "a" * 64, "b" * 64
Json = dict[str, Any]


def user(text: Any = "Do it.") -> Json:
    return {"role": "user", "content": text}


def calling(*calls: tuple[str, str, str], **fields: Any) -> Json:
    made = [{"id": i, "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": "assistant", "tool_calls": made, **fields}


LS = ("functions.bash:0", "bash", '{"command": "ls", "in": 1}')
CAT = ("functions.bash:1", "bash", '{"command": "cat"}')


def history_of(messages: list[Any]) -> History:
    return drained(History.of(messages))


def remember(store: Store, before: list[Json], said: Json, thought: str, now: float) -> None:
    """The reply to `before` has come."""
    names = history_of(before).names(calls_of(said))
    keep(store, OWNER, names=names, text=thought, now=now, used=())


def known(store: Store, messages: list[Json], now: float, owner: str = OWNER) -> list[Any]:
    """The reasoning of each message as it would be sent."""
    lacking = history_of(messages).lacking
    made = with_reasoning(messages, lacking, recall(store, owner, names_of(lacking), now))
    return [message.get("reasoning_content") for message in made if message["role"] != "user"]


def names_of(lacking: Sequence[LackingMessage]) -> list[Sequence[str]]:
    return [each.names for each in lacking]


@pytest.mark.parametrize(
    "sent",
    [
        [user(), calling(LS)],
        [user([{"type": "text", "text": "Do it.", "cache_control": {}}]), calling(LS)],
        # Another writer of JSON, and another id.
        [user(), calling((LS[0], "bash", '{"in":1,"command":"ls"}'))],
        [user(), calling(("call_7", *LS[1:]))],
    ],
)
def test_a_turn_is_known_again_as_clients_send_it(backend: Backend, sent: list[Json]) -> None:
    store = backend.open()
    remember(store, [user()], calling(LS), "hm \ud800", backend.now)
    assert known(store, sent, backend.now) == ["hm \ud800"]
    assert known(store, sent, backend.now, OTHER) == [None]
    for other in (("functions.bash:0", "bash", "{}"), ("functions.bash:0", "read", LS[2])):
        assert known(store, [user(), calling(other)], backend.now) == [None]
    backend.advance(31 * 86400)
    assert known(store, sent, backend.now) == [None]


def test_the_same_call_in_two_places_has_the_reasoning_of_each(backend: Backend) -> None:
    """K2 begins its ids anew in each conversation, K3 in each message."""
    store = backend.open()
    first, again = [user(), calling(LS)], [user(), calling(LS), user(), calling(LS)]
    remember(store, first[:1], calling(LS), "one", backend.now)
    remember(store, again[:3], calling(LS), "two", backend.now)
    remember(store, [user("Other.")], calling(LS), "three", backend.now)
    assert known(store, again, backend.now) == ["one", "two"]
    assert known(store, [user("Other."), calling(LS)], backend.now) == ["three"]
    assert known(store, first, backend.now) == ["one"]


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def answered(text: str) -> Json:
    return {"role": "tool", "tool_call_id": LS[0], "content": text}


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        ([user("One.")], [user("Two.")]),
        ([system("a"), user()], [system("b"), user()]),
        ([user(), calling(LS), answered("a")], [user(), calling(LS), answered("b")]),
    ],
)
def test_another_conversation_gets_nothing(
    backend: Backend, mine: list[Json], others: list[Json]
) -> None:
    store = backend.open()
    remember(store, mine, calling(CAT), "mine", backend.now)
    assert known(store, [*mine, calling(CAT)], backend.now)[-1] == "mine"
    assert known(store, [*others, calling(CAT)], backend.now)[-1] is None


def test_of_two_turns_with_one_name_the_first_is_kept(backend: Backend) -> None:
    """Of two alike: else a request would not begin as the one before."""
    store = backend.open()
    for thought, call_id in (("one", "a"), ("two", "a"), ("three", "b")):
        remember(store, [user()], calling((call_id, *LS[1:])), thought, backend.now)
    for call_id in "abc":
        assert known(store, [user(), calling((call_id, *LS[1:]))], backend.now) == ["one"]


def test_long_arguments_are_not_parsed(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    store, write = backend.open(), calling(("a", "write", json.dumps({"text": "x" * MAX_CHECKED})))
    monkeypatch.setattr(turn_reasoning, "loads", None)
    names = history_of([user()]).names(calls_of(write))
    monkeypatch.undo()
    keep(store, OWNER, names=names, text="hm", now=backend.now, used=())
    assert known(store, [user(), write], backend.now) == ["hm"]


def test_calls_of_one_turn_are_found_apart_and_what_the_client_sends_stays(
    backend: Backend,
) -> None:
    store = backend.open()
    remember(store, [user()], calling(LS, CAT), "both", backend.now)
    assert known(store, [user(), calling(LS), calling(CAT)], backend.now) == ["both", "both"]
    own = calling(LS, reasoning_content="own")
    assert known(store, [user(), own, calling(CAT)], backend.now) == ["own", "both"]
    said = {"role": "assistant", "content": "And then:"}
    sent = [user(), calling(LS), said, calling(CAT), answered("a"), answered("b")]
    found = ["both", None, "both", None, None]
    assert known(store, sent, backend.now) == found
    remember(store, sent, calling(LS), "more", backend.now)
    assert known(store, [*sent, calling(LS)], backend.now) == [*found, "more"]
    assert known(store, [user(), calling(LS, reasoning_content="own")], backend.now) == ["own"]


DATE = ("functions.date:2", "date", "{}")


def told(*call_ids: str) -> list[Json]:
    return [{"role": "tool", "tool_call_id": call_id, "content": "done"} for call_id in call_ids]


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ([calling(LS, CAT, DATE), *told("0", "1", "2")], ["hm"]),
        ([calling(LS), calling(CAT), calling(DATE), *told("0", "1", "2")], ["hm"] * 3),
        ([calling(LS, CAT), calling(DATE), *told("0", "1", "2")], ["hm"] * 2),
        ([calling(CAT), calling(LS), *told("1", "0")], ["hm"] * 2),
        ([calling(DATE, LS, CAT), *told("2", "0", "1")], ["hm"]),
        ([calling(CAT, DATE), *told("1", "2")], ["hm"]),
        ([calling(DATE), *told("2")], ["hm"]),
        ([calling(("functions.new:3", "new", "{}"), CAT), *told("3", "1")], ["hm"]),
        # Those after an output may be of another turn.
        ([calling(LS), *told("0"), calling(CAT, DATE), *told("1", "2")], ["hm", None]),
        ([calling(("functions.new:3", "new", "{}")), *told("3")], [None]),
    ],
)
def test_a_turn_of_several_calls_is_known_in_all_shapes(
    backend: Backend, sent: list[Json], found: list[Any]
) -> None:
    store = backend.open()
    remember(store, [user()], calling(LS, CAT, DATE), "hm", backend.now)
    given = known(store, [user(), *sent], backend.now)
    assert [text for text, m in zip(given, sent, strict=True) if m["role"] != "tool"] == found


def test_one_call_of_a_turn_does_not_stand_for_another_turn(backend: Backend) -> None:
    store = backend.open()
    remember(store, [user()], calling(LS, CAT), "both", backend.now)
    remember(store, [user()], calling(LS), "one", backend.now)
    assert known(store, [user(), calling(LS)], backend.now) == ["one"]
    assert known(store, [user(), calling(CAT, LS)], backend.now) == ["both"]


@pytest.mark.parametrize("place", [0, 1])
def test_what_an_earlier_version_kept_is_found(backend: Backend, place: int) -> None:
    """It kept the text under a name with the ids of the calls, to which the other names led."""
    store = backend.open()
    (message,) = history_of([user(), calling(LS)]).lacking
    store.put(OWNER, "reasoning:exact", dumps("hm"), backend.now)
    store.put(OWNER, message.names[place], b"reasoning:exact", backend.now)
    assert known(store, [user(), calling(LS)], backend.now) == ["hm"]
    store.put(OWNER, message.names[place], b"reasoning:gone", backend.now)
    assert known(store, [user(), calling(LS)], backend.now) == [None]
    store.put(OWNER, "reasoning:gone", b"reasoning:exact", backend.now)
    assert known(store, [user(), calling(LS)], backend.now) == [None]


def test_the_first_stays_if_an_earlier_version_kept_it(backend: Backend) -> None:
    store = backend.open()
    (message,) = history_of([user(), calling(LS)]).lacking
    store.put(OWNER, "reasoning:exact", dumps("hm"), backend.now)
    store.put(OWNER, message.names[0], b"reasoning:exact", backend.now)
    remember(store, [user()], calling(LS), "again", backend.now)
    assert known(store, [user(), calling(LS)], backend.now) == ["hm"]


@pytest.mark.parametrize("shape", [calling(LS, CAT), calling(CAT, LS)])
@pytest.mark.parametrize("earlier", [False, True])
def test_what_is_used_is_kept_longer(backend: Backend, shape: Json, earlier: bool) -> None:
    store = backend.open()
    remember(store, [user()], calling(LS, CAT), "old", backend.now)
    if earlier:
        (message,) = history_of([user(), calling(LS, CAT)]).lacking
        store.put(OWNER, message.names[0], b"reasoning:exact", backend.now)
        for name in message.names[1:]:
            store.put(OWNER, name, b"reasoning:exact", backend.now)
        store.put(OWNER, "reasoning:exact", dumps("old"), backend.now)
    messages = [user(), shape]
    for number in range(4):
        backend.advance(20 * 86400)
        history = history_of([*messages, user(f"{number}")])
        (found,) = recall(store, OWNER, names_of(history.lacking), backend.now)
        assert found and found.text == "old"
        names = history.names([CallDelta(0, "a", "bash", "{}")])
        keep(store, OWNER, names=names, text="new", now=backend.now, used=found.names)


@pytest.mark.parametrize("blob", [b'"hm', b"\xffhm", b"reasoning:\xff", b"", b"3"])
def test_reasoning_that_is_damaged_is_unknown(backend: Backend, blob: bytes) -> None:
    store = backend.open()
    (message,) = history_of([user(), calling(LS)]).lacking
    for name in message.names:
        store.put(OWNER, name, blob, backend.now)
    assert known(store, [user(), calling(LS)], backend.now) == [None]


# Reading replies


def call(index: int, **fields: Any) -> Json:
    function = {k: v for k, v in fields.items() if k in ("name", "arguments")}
    return {
        "index": index,
        **({"id": fields["id"]} if "id" in fields else {}),
        "function": function,
    }


STREAM = sse(
    [
        chunk({"role": "assistant", "content": None}),
        *(chunk({"reasoning_content": text}) for text in ("I ", "look", ' at "it".')),
        chunk({"content": "So."}),
        chunk({"tool_calls": [call(0, id="a", name="bash", arguments="")]}),
        *(chunk({"tool_calls": [call(0, arguments=text)]}) for text in ('{"c"', ': "ls"', "}")),
        chunk({"tool_calls": [call(1, id="b", name="read", arguments="{}")]}),
        chunk({}, "tool_calls", usage={"total_tokens": 1}),
    ]
)
CALLS = [("a", "bash", '{"c": "ls"}'), ("b", "read", "{}")]
WHOLE = {
    "reasoning": 'I look at "it".',
    "tool_calls": [{"id": i, "function": {"name": n, "arguments": a}} for i, n, a in CALLS],
}


def keeping(*, repairs: bool = True) -> RepairPipeline:
    """What repairs a reply whose reasoning is kept, or has it pass."""
    evidence = Evidence()
    stage = ChatRepair(DeclaredTools({}), RepairOptions(), evidence, 1)
    return RepairPipeline(
        stage if repairs else RepairStage(), evidence, read=turn_reader(keeps=True)
    )


def leaving(pipeline: RepairPipeline, piece: bytes) -> int:
    """How many bytes of a piece leave before a turn is kept."""
    return len(pipeline.feed(piece)) - pipeline.kept_first


def taken(reader: ReplyReader) -> list[tuple[str, list[tuple[str, str, str]]]]:
    turns = reader.turns()
    return [
        (turn.reasoning, [(c.id, c.name, c.arguments) for c in turn.call_deltas]) for turn in turns
    ]


@pytest.mark.parametrize("repairs", [True, False])
@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n"])
def test_the_end_of_a_turn_with_calls_waits(size: int, blank: bytes, repairs: bool) -> None:
    """Pieces of whole events, as they leave."""
    pipeline, events = keeping(repairs=repairs), STREAM.replace(b"\n\n", blank).split(blank)[:-1]
    sent = b""
    for begin in range(0, len(events), size):
        piece = b"".join(event + blank for event in events[begin : begin + size])
        end = leaving(pipeline, piece)
        sent += piece[:end]
        if end < len(piece):
            break
    assert b'"arguments": "{}"' in sent
    assert b'"finish_reason": "tool_calls"' not in sent
    assert taken(pipeline.read.client) == [('I look at "it".', CALLS)]
    assert taken(pipeline.read.client) == []


@pytest.mark.parametrize(
    "body",
    [STREAM, json.dumps({"choices": [{"message": WHOLE, "finish_reason": "tool_calls"}]}).encode()],
)
def test_a_reply_that_came_whole_is_read(body: bytes) -> None:
    assert taken(read_reply(body, keeps=True)) == [('I look at "it".', CALLS)]


def test_each_choice_is_taken_at_its_own_end() -> None:
    def of(index: int, delta: Json, finish: str | None = None) -> Json:
        made = chunk(delta, finish)
        made["choices"][0]["index"] = index
        return made

    thoughts = [of(index, {"reasoning_content": f"hm {index}"}) for index in (0, 1)]
    heads = [
        of(i, {"tool_calls": [call(0, id=f"c{i}", name="bash", arguments="{")]}) for i in (0, 1)
    ]
    tails = [of(i, {"tool_calls": [call(0, arguments="}")]}) for i in (0, 1)]
    pipeline = keeping()
    reader = pipeline.read.client
    first, second = (sse([of(*end)], done=False) for end in ((1, {}, "stop"), (0, {}, "length")))
    assert leaving(pipeline, said := sse([*thoughts, *heads, tails[1]], done=False)) == len(said)
    assert leaving(pipeline, first) == 0
    assert taken(reader) == [("hm 1", [("c1", "bash", "{}")])]
    assert leaving(pipeline, said := sse([tails[0]], done=False) + second) == len(said) - len(
        second
    )
    assert taken(reader) == [("hm 0", [("c0", "bash", "{}")])]


@pytest.mark.parametrize("silent", [{"tool_calls": None}, {"tool_calls": []}, {"content": "_call"}])
def test_deltas_without_a_call_before_the_first_thought_do_not_count(silent: Json) -> None:
    before = sse([chunk({"content": "x", **silent})] * 2, done=False)
    assert taken(read_reply(before + STREAM, keeps=True)) == [('I look at "it".', CALLS)]


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({"reasoning_content": "hm"}), chunk({"content": "No."}), chunk({}, "stop")],
        [chunk({"tool_calls": [call(0, id="a", name="bash", arguments="{}")]}), chunk({}, "stop")],
        [
            *(chunk({"reasoning_content": "x" * 65536}) for _ in range(MAX_REPLY // 65536 + 1)),
            chunk({"tool_calls": [call(0, id="a", name="bash", arguments="{}")]}),
            chunk({}, "stop"),
        ],
        [{"choices": 1}, [], chunk({"tool_calls": 1}), chunk({}, "stop")],
    ],
    ids=["no call", "no reasoning", "too long", "nonsense"],
)
def test_nothing_waits_where_nothing_is_to_be_kept(chunks: list[Any]) -> None:
    assert taken(read_reply(sse(chunks), keeps=True)) == []


# A conversation

K2_CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:{}<|tool_call_argument_begin|>"
    "{}<|tool_call_end|><|tool_calls_section_end|>"
)
DSML_CALL = (
    '<｜DSML｜tool_calls><｜DSML｜invoke name="bash">'
    '<｜DSML｜parameter name="command" string="true">'
    "{1[command]}</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>"
)
BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
TURNS = st.lists(
    st.fixed_dictionaries(
        {
            "stream": st.booleans(),
            "leaks": st.booleans(),
            "restart": st.booleans(),
            "command": st.sampled_from(["ls", 'echo "é"']),
            "own_id": st.booleans(),
            "moves": st.booleans(),
        }
    ),
    min_size=10,
    max_size=10,
)


def replied(model: str, number: int, turn: Json, arguments: Json) -> bytes:
    """What the host sends."""
    said: Json = {"role": "assistant", "reasoning_content": f"thought {number}"}
    call_id = f"functions.bash:{number}"
    if turn["leaks"] and "kimi" in model:
        said["content"] = K2_CALL.format(number, json.dumps(arguments))
    elif turn["leaks"]:
        said["content"] = DSML_CALL.format(number, arguments)
    else:
        function = {"name": "bash", "arguments": json.dumps(arguments)}
        said["tool_calls"] = [{"index": 0, "id": call_id, "type": "function", "function": function}]
    if turn["stream"]:
        return sse([chunk({name: text}) for name, text in said.items()] + [chunk({}, "stop")])
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    return json.dumps({"model": model, "choices": [choice]}).encode()


def heard(turn: Json, number: int, reply: bytes) -> list[Json]:
    """What a client makes of it that leaves out reasoning, and may have ids of its own."""
    if turn["stream"]:
        (called,) = read(reply).calls
    else:
        (made,) = json.loads(reply)["choices"][0]["message"]["tool_calls"]
        called = {"id": made["id"], **made["function"]}
    call_id = f"call_{number}" if turn["own_id"] else called["id"]
    arguments = called["arguments"]
    if turn["moves"]:
        arguments = json.dumps(json.loads(arguments), indent=1)
    output = {"role": "tool", "tool_call_id": call_id, "content": "done"}
    return [calling((call_id, called["name"], arguments)), output]


@settings(max_examples=10)
@given(TURNS, st.sampled_from(["kimi-k2.6", "deepseek-v4-pro"]))
def test_ten_turns_each_begin_with_the_one_before(turns: list[Json], model: str) -> None:
    """Streamed or not, leaked or not, with a restart between, and each with its own reasoning."""
    with TemporaryDirectory() as folder:
        backend, family = SqliteBackend(Path(folder)), family_of(model)
        store, messages, before = backend.open(), [user()], b"["
        for number, turn in enumerate(turns):
            if turn["restart"]:
                store.close()
                store = backend.open()
            history = history_of(messages)
            found = recall(store, OWNER, names_of(history.lacking), backend.now)
            known = with_reasoning(messages, history.lacking, found)
            request = cured({"model": model, "messages": known, "tools": [BASH]}, family).request
            sent = dumps(request["messages"])
            assert sent.startswith(before)
            before = sent[:-1]
            thoughts = [m["reasoning_content"] for m in request["messages"] if m.get("tool_calls")]
            assert thoughts == [f"thought {earlier}" for earlier in range(number)]
            reply = replied(model, number, turn, {"command": turn["command"]})
            tools = DeclaredTools.of_request(request)
            repaired = repair_whole(reply, tools, RepairOptions(), Evidence(), 1)
            for taken_turn in read_reply(repaired, keeps=True).turns(last=True):
                names = history.names(taken_turn.call_deltas)
                text = taken_turn.reasoning
                keep(store, OWNER, names=names, text=text, now=backend.now, used=())
            messages += heard(turn, number, repaired)
        store.close()
