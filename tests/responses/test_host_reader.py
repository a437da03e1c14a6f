"""What a host's events say of their items: each text once, whichever event brings it."""

from __future__ import annotations

import itertools

import pytest

from dragoman.responses.host_reader import HostReader, ItemDone, TextDelta
from dragoman.wire.json_codec import Json

TEXT = {"type": "output_text", "text": "It is fine."}
MESSAGE: Json = {"type": "message", "id": "msg_1", "content": [TEXT]}
AT: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
EMPTY: Json = MESSAGE | {"content": []}

BEGIN: list[Json] = [
    {"type": "response.output_item.added", "output_index": 0, "item": EMPTY},
    {"type": "response.content_part.added", **AT, "part": TEXT | {"text": ""}},
]
DELTAS: list[Json] = [
    {"type": "response.output_text.delta", **AT, "delta": delta} for delta in ("It is", " fine.")
]
ENDS: list[Json] = [
    {"type": "response.output_text.done", **AT, "text": TEXT["text"]},
    {"type": "response.content_part.done", **AT, "part": TEXT},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {"type": "response.completed", "response": {"status": "completed", "output": [MESSAGE]}},
]


def said(events: list[Json]) -> list[object]:
    reader = HostReader()
    return [what for event in events for what in reader.read(event)]


def told(events: list[Json]) -> str:
    return "".join(what.delta for what in said(events) if isinstance(what, TextDelta))


@pytest.mark.parametrize("begun", [0, 1, 2])
@pytest.mark.parametrize("deltas", [0, 1, 2])
def test_a_text_is_told_once_whichever_events_are_left_out(begun: int, deltas: int) -> None:
    for count in range(1, len(ENDS) + 1):
        for ends in itertools.combinations(ENDS, count):
            events = [*BEGIN[:begun], *DELTAS[:deltas], *ends]
            assert told(events) == TEXT["text"], [event["type"] for event in events]


@pytest.mark.parametrize("left_out", ["item_id", "output_index", "content_index"])
def test_a_place_that_is_left_out_is_that_of_the_open_text(left_out: str) -> None:
    events = [
        {name: value for name, value in event.items() if name != left_out}
        for event in (*BEGIN, *DELTAS, *ENDS)
    ]
    assert told(events) == TEXT["text"]


@pytest.mark.parametrize("index", [-1, 2**14, 1.0, "0", True, None])
def test_an_index_that_is_none_makes_no_room_for_items(index: object) -> None:
    reader = HostReader()
    for event in (*BEGIN, *DELTAS, *ENDS[:3]):
        for _ in reader.read(event | {"output_index": index}):
            pass
    assert len(reader.items) <= 1
    assert reader.next_index <= 1


def test_an_item_that_is_listed_under_another_id_is_not_told_again() -> None:
    """As vLLM does."""
    listed = {"output": [MESSAGE | {"id": "msg_other"}]}
    events = [*BEGIN, *DELTAS, *ENDS[:3], {"type": "response.completed", "response": listed}]
    assert told(events) == TEXT["text"]
    assert sum(isinstance(what, ItemDone) for what in said(events)) == 1


def test_a_delta_of_the_text_that_came_last_is_read_as_any_other() -> None:
    short, long = HostReader(), HostReader()
    for event in (*BEGIN, DELTAS[0]):
        for reader in (short, long):
            for _ in reader.read(event):
                pass
    quick = short.continued(DELTAS[1])
    assert quick is not None
    (slow,) = [each for each in long.read(DELTAS[1]) if isinstance(each, TextDelta)]
    assert quick.text == slow.text.text
    assert short.continued(DELTAS[1] | {"output_index": 1}) is None
