"""The names of the Responses API stand where somebody who greps for one finds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.bridge.request.input_items import HOSTED
from dragoman.responses.names import CALL_OUTPUTS, ID_PREFIXES, is_event, refers
from dragoman.stored.endpoint_bodies import input_items
from dragoman.stored.stored_response import StoredResponse
from dragoman.wire.json_codec import dumps
from tests.bridge.grammar import TERMINALS, TEXTS

PARTS = ("output_item", "content_part", "reasoning_summary_part")
ROOT = Path(__file__).parents[2]
SOURCE = "".join(path.read_text() for path in (ROOT / "addon/dragoman").rglob("*.py"))
SENT = [
    *(f"{text}.{end}" for text in TEXTS for end in ("delta", "done")),
    *(f"response.{part}.{end}" for part in PARTS for end in ("added", "done")),
    *(*sorted(TERMINALS), "response.created", "response.in_progress", "response.required_action"),
]
OWN = "resp_" + "0" * 32


@pytest.mark.parametrize("name", SENT)
def test_the_full_name_of_every_event_that_is_sent_stands_in_the_source(name: str) -> None:
    assert f'"{name}"' in SOURCE


def _listed(item: dict[str, object]) -> str:
    kept = StoredResponse({"id": OWN, "output": []}, {"model": "m"}, dumps([item]))
    (listed,) = input_items([kept], {})["data"]
    item_id: str = listed["id"]
    return item_id


@pytest.mark.parametrize("kind", sorted({*CALL_OUTPUTS, *CALL_OUTPUTS.values(), *HOSTED}))
def test_an_item_that_is_listed_has_an_id_of_its_own_kind(kind: str) -> None:
    prefix, _, rest = _listed({"type": kind, "call_id": "c"}).partition("_")
    assert rest == f"{'0' * 32}_in_0"
    if kind != "tool_call":  # sent by a dialect of ours alone
        assert prefix == ID_PREFIXES[kind]
    assert prefix != "msg"


def test_ids_tell_the_kinds_apart() -> None:
    assert len(set(ID_PREFIXES.values())) == len(ID_PREFIXES)
    assert all(re.fullmatch("[a-z]+", prefix) for prefix in ID_PREFIXES.values())
    assert _listed({"type": "of_tomorrow"}).startswith("item_")
    assert _listed({"role": "user", "content": "x"}).startswith("msg_")


@pytest.mark.parametrize(
    ("value", "event"),
    [
        ({"type": "response.created"}, True),
        ({"type": "error"}, True),
        ({"type": "ping"}, True),
        ({"type": "error", "choices": []}, False),
        ({"type": ["response.created"]}, False),
        ({"choices": []}, False),
    ],
)
def test_what_an_event_is(value: dict[str, object], event: bool) -> None:
    assert is_event(value) is event


@pytest.mark.parametrize(
    ("item", "reference"),
    [
        ({"type": "item_reference", "id": "rs_1"}, True),
        ({"type": None, "id": "rs_1"}, True),
        ({"type": "message", "id": "msg_1"}, False),
        ({"id": "msg_1", "role": "user"}, False),
        ({"type": "item_reference"}, False),
    ],
)
def test_what_refers_to_an_item(item: dict[str, object], reference: bool) -> None:
    assert refers(item) is reference
