"""The content of a message: text, media, and what cannot be sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .converting import Json, call, image, of_input, output, refusal, user


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
@pytest.mark.parametrize("role", ["user", "developer", "assistant"])
def test_text_parts_of_every_name_become_a_string(kind: str, role: str) -> None:
    item = {"role": role, "content": [{"type": kind, "text": "one"}]}
    assert of_input(item).messages[0]["content"] == "one"


def test_several_text_parts_of_the_user_are_lines_of_one_string() -> None:
    parts = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]
    assert of_input(user(parts)).messages[0]["content"] == "one\ntwo"


def test_a_refusal_is_kept_as_text() -> None:
    item = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert of_input(user("x"), item).messages[1]["content"] == "No."


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (image("u"), {"type": "image_url", "image_url": {"url": "u"}}),
        (image("u", detail="auto"), {"type": "image_url", "image_url": {"url": "u"}}),
        (
            image("u", detail="low"),
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
        ),
        (
            image("u", detail="original"),
            {"type": "image_url", "image_url": {"url": "u", "detail": "high"}},
        ),
        (
            {"type": "input_image", "image_url": {"url": "u", "detail": "high"}},
            {"type": "image_url", "image_url": {"url": "u", "detail": "high"}},
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:,x"},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:,x"}},
        ),
        (
            {"type": "input_file", "file_id": "file-1"},
            {"type": "file", "file": {"file_id": "file-1"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ),
    ],
)
def test_media_between_texts_keep_their_place(part: Json, sent: Json) -> None:
    parts = [{"type": "input_text", "text": "a"}, part, {"type": "input_text", "text": "b"}]
    assert of_input(user(parts)).messages[0]["content"] == [
        {"type": "text", "text": "a"},
        sent,
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "input_image", "file_id": "file-1"}, "file_id"),
        ({"type": "input_file", "file_url": "https://example.invalid/a.pdf"}, "file_url"),
        ({"type": "input_image"}, "image_url"),
        ({"type": "input_file"}, "file_data"),
        ({"type": "input_audio"}, "input_audio"),
        ({"type": "input_audio", "input_audio": {"data": "x"}}, "input_audio.format"),
        ({"type": "input_text"}, "text"),
        ({"type": "input_text", "text": 1}, "text"),
        ({}, "type"),
    ],
)
def test_a_part_that_cannot_be_sent_is_refused_by_name(part: Json, field: str) -> None:
    body = {"model": "m", "input": [user([part])]}
    assert refusal(body).param == f"input[0].content[0].{field}"


def test_an_unknown_part_is_dropped_and_recorded() -> None:
    made = of_input(user([{"type": "input_smell"}, {"type": "input_text", "text": "x"}]))
    assert made.messages[0]["content"] == "x"
    assert "dropped part input_smell" in made.notes


@pytest.mark.parametrize("content", ["", [], None, [{"type": "input_text", "text": ""}]])
def test_an_empty_message_is_dropped_and_recorded(content: Any) -> None:
    made = of_input(user("x"), user(content), {"role": "assistant", "content": content})
    assert made.messages == [{"role": "user", "content": "x"}]
    assert "dropped an empty user message" in made.notes


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"summary": 42}, ""),
        ({"summary": [{"type": "summary_text"}]}, ""),
        ({"summary": [], "content": {}}, ""),
        ({"content": [None]}, ""),
        ({"content": [{"type": "reasoning_text", "text": None}]}, ""),
        ({"content": [{"type": 1}], "summary": [{"type": "summary_text", "text": "s"}]}, "s"),
        ({"content": [3, {"type": "reasoning_text", "text": "c"}]}, "c"),
        ({"encrypted_content": 3, "content": "whole"}, "whole"),
    ],
)
def test_reasoning_of_any_form_never_ends_a_conversation(fields: Json, read: str) -> None:
    item = {"type": "reasoning", "encrypted_content": "gAAAA-foreign", **fields}
    made = of_input(user("x"), item, call("c", "f"), output("c", "o"))
    assert made.messages[1].get("reasoning_content", "") == read


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text"},
        {"type": "text", "text": {}},
        {"type": "input_image"},
        {"type": "input_image", "image_url": 3},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://example.invalid/a.pdf"},
        {"type": "input_audio", "input_audio": []},
    ],
)
def test_a_part_of_an_output_that_cannot_be_read_is_kept_as_json(part: Json) -> None:
    value = [{"type": "input_text", "text": "a"}, part]
    made = of_input(user("x"), call("c", "f"), output("c", value))
    assert made.messages[2]["content"] == "a\n" + json.dumps(part, separators=(",", ":"))
    assert len(made.messages) == 3
