"""What is kept of a response, and the conversation that is read off a chain of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.proxy.stored import async_store as archives
from dragoman.proxy.stored.async_store import AsyncStore
from dragoman.stored import stored_response as kept_module
from dragoman.stored.continuation import (
    Continuation,
    continuing,
    open_calls,
    reading_turns,
    response_ids_of,
    resuming,
    writing_turn,
)
from dragoman.stored.endpoint_bodies import events_after, input_items
from dragoman.stored.save_context import SaveContext, asker, owner
from dragoman.stored.store import Limits
from dragoman.stored.stored_response import StoredResponse, Unreadable, parts_of
from dragoman.wire.json_codec import dumps
from dragoman.wire.slices import drained
from tests.stored.backends import Backend

JSONS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(max_size=4), JSONS, max_size=4)
IDS = st.from_regex(r"resp_[0-9a-f]{32}", fullmatch=True)
KEPT = st.builds(
    StoredResponse,
    response=OBJECTS,
    request=st.binary(max_size=40),
    ancestor_ids=st.lists(IDS, max_size=4).map(lambda ids: " ".join(ids).encode()),
    references=st.dictionaries(st.text(max_size=4), OBJECTS, max_size=2),
    full_output=st.none() | st.lists(OBJECTS, max_size=2),
    delta_cuts=st.text(max_size=40).map(str.encode),
)
NOW = 1_700_000_000.0


def packed(kept: StoredResponse) -> tuple[bytes, dict[str, bytes]]:
    return kept.packed(drained(kept.writing()))


@given(kept=KEPT)
def test_what_is_kept_is_read_again(kept: StoredResponse) -> None:
    assert drained(StoredResponse.decoding(*packed(kept))) == kept


# What is the same in many turns

LONG = st.sampled_from(["a" * 600, "tools" * 300, '"tools": null' * 60, "\\0\\" * 200, "é" * 400])
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["x", "y"])},
        optional={"description": LONG, "instructions": LONG, "tools": st.just([{"a": "b" * 600}])},
    ),
    max_size=3,
)
INPUT = (
    st.text(max_size=5)
    | LONG
    | st.lists(
        st.fixed_dictionaries({"role": st.just("user"), "content": LONG})
        | st.fixed_dictionaries({"type": st.just("additional_tools"), "tools": TOOLS})
        | st.fixed_dictionaries({"instructions": LONG | st.none(), "tools": st.none()}),
        max_size=3,
    )
)
REQUESTS = st.lists(
    st.tuples(st.just("tools"), TOOLS)
    | st.tuples(st.just("instructions"), LONG | st.none())
    | st.tuples(st.just("input"), INPUT)
    | st.tuples(st.just("model"), st.just("m")),
    unique_by=lambda pair: pair[0],
)


@given(
    fields=REQUESTS,
    snapshot=st.fixed_dictionaries(
        {
            "id": st.just("resp_1"),
            "output": INPUT.filter(lambda value: isinstance(value, list)),
            "instructions": LONG | st.none(),
            "tools": TOOLS,
        }
    ),
    style=st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}]),
    inherited=st.lists(st.just("x" * 64), max_size=1),
)
def test_what_is_packed_is_read_again(
    fields: Any, snapshot: Any, style: Any, inherited: list[str]
) -> None:
    request = json.dumps(dict(fields), **style).encode()
    kept = StoredResponse(
        snapshot, request, b"resp_0", {}, delta_cuts=b'{"c":[[1]]}', inherited=inherited
    )
    blob, parts = packed(kept)
    assert parts_of(blob) == list(parts)
    whole = drained(StoredResponse.decoding(blob, parts))
    assert list(whole.response) == list(snapshot)
    assert replace(whole, inherited=inherited) == kept
    bare = drained(StoredResponse.decoding(blob))
    assert drained(bare.turn_items()) == drained(kept.turn_items())
    assert (bare.ancestors, bare.response["id"]) == (kept.ancestors, "resp_1")
    assert set(whole.inherited) == {*inherited, *parts}


def test_tools_and_instructions_are_no_part_of_what_is_packed() -> None:
    tools = [{"name": "x", "parameters": {"instructions": "i", "tools": 1}, "d": "t" * 5000}]
    ask = {"model": "m", "tools": tools, "instructions": "b" * 5000, "input": "c" * 1000}
    response = {"id": "resp_1", "output": [], "tools": tools, "instructions": "b" * 5000}
    blob, parts = packed(StoredResponse(response, dumps(ask)))
    assert len(blob) < 2000
    assert sorted(parts.values()) == sorted([dumps(tools), dumps("b" * 5000)])


def test_the_events_that_an_earlier_version_kept_are_read() -> None:
    """They stood at the end, with their parts cut out."""
    tools = dumps([{"name": "x", "d": "t" * 5000}])
    event = b'data: {"type":"a","sequence_number":%d,"tools":%b}\n\n'
    whole = StoredResponse({"id": "resp_1", "output": []}, b'{"tools":' + tools + b"}")
    blob, parts = packed(whole)
    kept = drained(
        StoredResponse.decoding(
            blob + event % (0, b"\0%d\0" % 0) + event % (1, b"\0%d\0" % 0), parts
        )
    )
    assert kept.events == event % (0, tools) + event % (1, tools)
    assert drained(events_after(kept, 0)) == event % (1, tools)


def test_a_request_that_is_longer_than_is_read_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside its tools and instructions, which may be as long as they are."""
    searched = []
    monkeypatch.setattr(kept_module, "_values_of", lambda *given: searched.append(given) or [])
    instructions = "b" * kept_module._MAX_READ
    ask = {"instructions": instructions, "input": "c" * 1000}
    packed(StoredResponse({"output": [], "instructions": instructions}, dumps(ask)))
    assert searched
    searched.clear()
    packed(StoredResponse({"output": []}, dumps({"input": "c" * kept_module._MAX_READ})))
    assert not searched


@given(blob=st.binary(max_size=200) | KEPT.map(lambda kept: packed(kept)[0][:-20]))
def test_bytes_of_something_else_are_unreadable_or_read(blob: bytes) -> None:
    with contextlib.suppress(Unreadable):
        drained(StoredResponse.decoding(blob))


@pytest.mark.parametrize(
    "head",
    [
        b"{}",
        b"[]",
        b"1",
        b'{"version":2}',
        b'{"version":1,"sizes":[1]}',
        b'{"version":1,"sizes":0}',
    ],
)
def test_another_version_is_as_good_as_not_there(head: bytes) -> None:
    with pytest.raises(Unreadable):
        drained(StoredResponse.decoding(head + b"\nrest"))


def made(number: int, *, before: tuple[str, ...] = (), **request: Any) -> StoredResponse:
    own = f"{number:032x}"
    output = [{"type": "message", "role": "assistant", "id": f"msg_{own}_0", "content": []}]
    return StoredResponse(
        response={"id": f"resp_{own}", "output": output},
        request=dumps({"input": f"ask {number}"} | request),
        ancestor_ids=" ".join(before).encode(),
    )


def test_a_chain_is_a_conversation() -> None:
    first = made(1)
    second = made(2, before=(first.response["id"],))
    items = drained(reading_turns(drained(writing_turn(kept)) for kept in (first, second)))
    assert [item.get("content") for item in items] == [
        *("ask 1", [], "ask 2", []),
    ]
    assert items == [*drained(first.turn_items()), *drained(second.turn_items())]
    earlier = drained(continuing(second, items, [], {}))
    assert earlier.ancestors == (first.response["id"], second.response["id"])
    assert earlier.items is items


@given(text=st.text(max_size=60) | IDS.map(lambda name: f"msg_{name[5:]}_0"))
def test_items_name_their_makers_or_nobody(text: str) -> None:
    assert response_ids_of([text]) in (set(), {f"resp_{text[4:36]}"})


@given(
    parts=st.lists(st.text(max_size=5), min_size=1, max_size=4),
    others=st.lists(st.text(max_size=5), min_size=1, max_size=4),
)
def test_two_who_ask_are_one_only_if_all_is_the_same(parts: list[str], others: list[str]) -> None:
    same = parts == others
    one, other = (asker(each[1:], each[0]) for each in (parts, others))
    assert (one == other) == same
    assert (owner(b"secret", one) == owner(b"secret", other)) == same
    assert owner(b"secret", one) != owner(b"other", one)


def test_a_failed_resumption_is_not_kept() -> None:
    keeping = SaveContext(b"", b"{}", Continuation(), resumes=made(1))
    failed = {"id": "resp_1", "status": "failed", "output": []}
    assert keeping.kept(failed, b"") is None
    assert SaveContext(b"", b"{}").kept(failed, b"") is not None


def test_events_that_quote_numbers_are_counted_by_their_own() -> None:
    frames = [
        b'event: a\ndata: {"type":"a","sequence_number":%d,"delta":"\\"sequence_number\\":9"}\n\n'
        % n
        for n in range(3)
    ]
    kept = StoredResponse(response={}, request=b"{}", events=b"".join(frames))
    assert drained(events_after(kept, 0)) == b"".join(frames[1:])
    assert drained(events_after(kept, 2)) == b""


def test_a_listing_asks_for_nothing_that_items_need_not_have() -> None:
    items = [{}, {"type": "message", "content": None}, {"type": "new"}, {"id": 5, "content": []}]
    page = drained(input_items([made(1, input=items)], {}))
    assert page.count(b'"status":"completed"') == len(items)


# What is used does not grow old


def test_what_a_response_goes_on_from_lives_as_long_as_it(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its previous responses, and those whose items it refers to."""
    monkeypatch.setattr(archives, "time", type("Clock", (), {"time": lambda: backend.now}))
    opened = AsyncStore()
    opened.choose(backend.value, confdir=backend.confdir, limits=Limits(1, 10**7), running=True)
    first, referred, alone = made(1), made(2), made(3)

    async def live() -> list[bool]:
        for kept in (first, referred, alone):
            await opened.keep(b"me", kept)
        for number in range(4, 7):
            backend.advance(50_000)
            last = made(number, before=(first.response["id"],))
            reference = referred.response["output"][0]
            await opened.keep(
                b"me",
                StoredResponse(
                    last.response, last.request, last.ancestor_ids, {reference["id"]: reference}
                ),
            )
        ids = [kept.response["id"] for kept in (first, referred, alone)]
        assert await opened.get(b"somebody else", ids) == [None] * 3
        return [found is not None for found in await opened.get(b"me", ids)]

    assert asyncio.run(live()) == [True, True, False]
    opened.close()


def item(kind: str, status: str, number: int) -> dict[str, Any]:
    return {"type": kind, "status": status, "id": f"x_{number}", "call_id": f"c{number}"}


CUT = [
    item("reasoning", "completed", 0),
    item("message", "incomplete", 1),
    item("function_call", "completed", 2),
    item("shell_call", "incomplete", 3),
    item("function_call", "incomplete", 4),
    item("tool_call", "incomplete", 5),
    item("custom_tool_call", "incomplete", 6),
]


@pytest.mark.parametrize("said", [None, CUT])
@pytest.mark.parametrize("status", ["completed", "incomplete", "cancelled", "failed"])
def test_what_was_cut_is_no_history(status: str, said: Any) -> None:
    """A `shell_call` is told whole or not at all: ``incomplete``, it names no command.  A message
    that a limit cut has had its end."""
    whole = [each for each in CUT[:4] if status != "failed" or each["type"] != "message"]
    output = CUT if said is None else []
    response = {"id": "resp_1", "status": status, "output": output}
    kept = replace(made(1), response=response, full_output=said)
    assert drained(kept.turn_items())[1:] == whole
    assert [call["call_id"] for call in drained(open_calls(kept)).values()] == ["c2", "c3"]
    assert drained(resuming(kept, []))["input"][1:] == whole
