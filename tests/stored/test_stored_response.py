"""What is kept of a response, and the conversation that is read off a chain of them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.proxy.stored import async_store as archives
from dragoman.proxy.stored.async_store import AsyncStore
from dragoman.stored.continuation import (
    Continuation,
    found_items,
    open_calls,
    response_ids_of,
    resuming,
)
from dragoman.stored.endpoint_bodies import input_items
from dragoman.stored.save_context import SaveContext, asker, owner
from dragoman.stored.store import Limits
from dragoman.stored.stored_response import (
    OtherVersion,
    StoredResponse,
    Streamed,
    Unreadable,
)
from dragoman.wire.json_codec import dumps
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
    request=OBJECTS,
    items=st.lists(OBJECTS, max_size=3).map(dumps),
    ancestors=st.lists(IDS, max_size=4).map(tuple),
    full_output=st.none() | st.lists(OBJECTS, max_size=2),
    streamed=st.none() | st.builds(Streamed, st.sampled_from(["openai", "codex"]), st.integers(0)),
)
NOW = 1_700_000_000.0


@given(kept=KEPT)
def test_what_is_kept_is_read_again(kept: StoredResponse) -> None:
    assert replace(StoredResponse.of(kept.packed()), size=0) == kept


# What is the same in many turns

LONG = st.sampled_from(["a" * 600, "tools" * 300, '"tools": null' * 60, "\\0\\" * 200, "é" * 400])
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["x", "y"])},
        optional={"description": LONG, "instructions": LONG, "tools": st.just([{"a": "b" * 600}])},
    ),
    max_size=3,
)
REPEATED = {"instructions": LONG | st.none(), "tools": TOOLS}


@given(
    request=st.fixed_dictionaries({"model": st.just("m")}, optional=REPEATED),
    response=st.fixed_dictionaries({"id": st.just("resp_1"), "output": st.just([]), **REPEATED}),
    items=st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": LONG}), max_size=3),
)
def test_tools_and_instructions_are_in_their_places_again(
    request: Any, response: Any, items: Any
) -> None:
    kept = StoredResponse(response, request, dumps(items), ("resp_0",))
    blob = kept.packed()
    whole = StoredResponse.of(blob)
    assert replace(whole, size=0) == kept
    assert list(whole.response) == list(response)
    assert list(whole.request) == list(request)
    bare = StoredResponse.of(blob, whole=False)
    assert bare.turn_items() == kept.turn_items()
    assert (bare.ancestors, bare.response["id"]) == (kept.ancestors, "resp_1")


def test_tools_and_instructions_are_not_read_for_a_conversation() -> None:
    tools = [{"name": "x", "parameters": {"instructions": "i", "tools": 1}, "d": "t" * 5000}]
    repeated = {"tools": tools, "instructions": "b" * 5000}
    kept = StoredResponse({"id": "resp_1", "output": []} | repeated, repeated, b"[]")
    bare = StoredResponse.of(kept.packed(), whole=False)
    assert bare.size < 300
    assert bare.request == dict.fromkeys(repeated)


@given(blob=st.binary(max_size=200) | KEPT.map(lambda kept: kept.packed()[:-20]))
def test_bytes_of_something_else_are_unreadable_or_read(blob: bytes) -> None:
    with contextlib.suppress(Unreadable):
        StoredResponse.of(blob)


@pytest.mark.parametrize(
    "head",
    [
        b"{}",
        b"[]",
        b"1",
        b'{"version":4}',
        b'{"version":4,"sum":"x"}',
    ],
)
def test_a_head_that_is_none_is_damage(head: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        StoredResponse.of(head + b"\nrest")
    assert not isinstance(caught.value, OtherVersion)


@pytest.mark.parametrize("version", [1, 3, 5])
def test_another_version_is_as_good_as_not_there(version: int) -> None:
    with pytest.raises(OtherVersion):
        StoredResponse.of(b'{"version":%d}\nrest' % version)


def test_a_damaged_byte_is_found_wherever_it_is() -> None:
    repeated = {"tools": [{"name": "x" * 600}]}
    output = [{"type": "message", "role": "assistant", "content": "Hello."}]
    response = {"id": "resp_1", "output": output, "instructions": "y" * 600}
    kept = StoredResponse(response, {"model": "m"} | repeated, b'[{"a":{"b":1}}]', ("resp_0",))
    blob = kept.packed()
    for at in range(len(blob)):
        for mask in (1, 0x20, 0x80):
            damaged = blob[:at] + bytes([blob[at] ^ mask]) + blob[at + 1 :]
            with pytest.raises(Unreadable):
                StoredResponse.of(damaged)


def made(number: int, *, before: tuple[str, ...] = (), items: Any = None) -> StoredResponse:
    own = f"{number:032x}"
    output = [{"type": "message", "role": "assistant", "id": f"msg_{own}_0", "content": []}]
    return StoredResponse(
        response={"id": f"resp_{own}", "output": output},
        request={},
        items=dumps([{"role": "user", "content": f"ask {number}"}] if items is None else items),
        ancestors=before,
    )


def test_items_are_found_by_the_ids_that_they_got() -> None:
    kept = made(1)
    own, answer = f"{1:032x}", made(1).response["output"][0]
    ids = [f"msg_{own}_0", f"msg_{own}_in_0", f"msg_{own}_1", f"msg_{2:032x}_0", "msg_x"]
    found = found_items(ids, {kept.response["id"]: kept})
    assert found == {ids[0]: answer, ids[1]: {"role": "user", "content": "ask 1"}}


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
    keeping = SaveContext(b"", {}, b"[]", Continuation(), resumes=made(1))
    failed = {"id": "resp_1", "status": "failed", "output": []}
    assert keeping.kept(failed) is None
    assert SaveContext(b"", {}, b"[]").kept(failed) is not None


def test_a_listing_asks_for_nothing_that_items_need_not_have() -> None:
    items = [{}, {"type": "message", "content": None}, {"type": "new"}, {"id": 5, "content": []}]
    page = input_items([made(1, items=items)], {})
    assert [item["status"] for item in page["data"]] == ["completed"] * len(items)


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
            earlier = Continuation([], last.ancestors, {reference["id"]: reference})
            await opened.keep(b"me", last, SaveContext(b"me", {}, b"[]", earlier).used)
        ids = [kept.response["id"] for kept in (first, referred, alone)]
        assert not any([await opened.has(b"somebody else", each) for each in ids])
        return [await opened.has(b"me", each) for each in ids]

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
    assert kept.turn_items()[1:] == whole
    assert [call["call_id"] for call in open_calls(kept).values()] == ["c2", "c3"]
    assert resuming(kept, [])["input"][1:] == whole
