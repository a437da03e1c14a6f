"""What only Anthropic's servers read in a Messages request, as texts and images."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.bridge.anthropic_blocks import (
    plain_blocks,
    reminder,
    system_text,
    without_billing,
)
from dragoman.notes import Evidence

Json = dict[str, Any]
BILLING = "x-anthropic-billing-header: cc_version=2.1.153.a1b; cc_entrypoint=cli; cch=9f3e2;"
IMAGE: Json = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def plain(block: Json) -> tuple[list[Json], list[str]]:
    evidence = Evidence()
    blocks = plain_blocks(block, evidence)
    return blocks, [f"{what} {detail}" for what, detail in evidence.notes]


def document(**fields: Any) -> Json:
    return {"type": "document", **fields}


def source_of(said: Any) -> Json:
    if isinstance(said, str):
        return {"type": "text", "media_type": "text/plain", "data": said}
    return {"type": "content", "content": said}


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
TODO = "To read it, use a tool that gives its text."


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (document(source=source_of("One.\nTwo.")), "<document>\nOne.\nTwo.\n</document>"),
        (
            document(title='The "A"', context="Of May.", source=source_of("One.")),
            "<document title='The \"A\"'>\nOf May.\nOne.\n</document>",
        ),
        (
            document(title="A", source=source_of([text("One."), text("Two.")])),
            '<document title="A">\nOne.\nTwo.\n</document>',
        ),
        (
            {
                "type": "search_result",
                "title": "T",
                "source": "https://example.com",
                "content": [text("One."), text("Two.")],
                "citations": {"enabled": True},
            },
            '<search_result title="T" source="https://example.com">\nOne.\nTwo.\n</search_result>',
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "T",
                        "url": "https://example.com",
                        "encrypted_content": "EqgfCioIARgB",
                        "page_age": None,
                    },
                    {"type": "web_search_result", "title": "U"},
                ],
            },
            "<web_search_tool_result>\nT (https://example.com)\nU\n</web_search_tool_result>",
        ),
        (
            {
                "type": "web_search_tool_result",
                "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
            },
            "<web_search_tool_result>\nIt failed: unavailable\n</web_search_tool_result>",
        ),
        (
            {
                "type": "web_fetch_tool_result",
                "content": {
                    "type": "web_fetch_result",
                    "url": "https://example.com",
                    "content": document(title="T", source=source_of("One.")),
                },
            },
            '<web_fetch_tool_result>\nhttps://example.com\n<document title="T">\n'
            "One.\n</document>\n</web_fetch_tool_result>",
        ),
        (
            {
                "type": "bash_code_execution_tool_result",
                "content": {"type": "x", "stdout": "out", "stderr": "err", "return_code": 1},
            },
            "<bash_code_execution_tool_result>\nout\nerr\n</bash_code_execution_tool_result>",
        ),
        (
            {"type": "mcp_tool_result", "tool_use_id": "m", "content": [text("a.txt")]},
            "<mcp_tool_result>\na.txt\n</mcp_tool_result>",
        ),
        (
            {
                "type": "tool_search_tool_result",
                "content": {
                    "type": "tool_search_tool_search_result",
                    "tool_references": [{"type": "tool_reference", "tool_name": "Grep"}],
                },
            },
            "<tool_search_tool_result>\nLoaded: Grep\n</tool_search_tool_result>",
        ),
    ],
)
def test_texts_are_written_out(block: Json, said: str) -> None:
    blocks, notes = plain(block)
    assert blocks == [text(said)]
    assert f"written out a block {block['type']}" in notes


@pytest.mark.parametrize(
    ("block", "line", "note"),
    [
        (
            document(title="A.pdf", source=PDF),
            f"[document: A.pdf. It was left out: this host takes no PDF. {TODO}]",
            "left out a PDF",
        ),
        (
            document(source={"type": "url", "url": "https://example.com/a.pdf"}),
            "[document: https://example.com/a.pdf. It was left out: this host takes no PDF. "
            f"{TODO}]",
            "left out a PDF",
        ),
        (
            document(source={"type": "file", "file_id": "file_1"}),
            "[document: no title. It was left out: this host takes no document of this kind. "
            f"{TODO}]",
            "left out a document of this kind",
        ),
        (
            {"type": "tool_reference", "tool_name": "Grep"},
            "Loaded: Grep",
            "written as a line a block tool_reference",
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x y"}},
            "[server_tool_use: web_search, x y]",
            "written as a line a block server_tool_use",
        ),
        (
            {"type": "mcp_tool_use", "name": "read", "server_name": "files", "input": {"a": 1}},
            "[mcp_tool_use: read]",
            "written as a line a block mcp_tool_use",
        ),
        ({"type": 7}, "[: ]", "written as a line a block "),
        ({"type": "x y", "text": "One."}, "[x y: ]\nOne.", "written as a line a block x y"),
    ],
)
def test_what_has_no_text_is_a_line(block: Json, line: str, note: str) -> None:
    assert plain(block) == ([text(line)], [note])


def test_images_stay_between_the_texts() -> None:
    blocks, _ = plain(document(source=source_of([text("One."), IMAGE, text("Two.")])))
    assert blocks == [text("<document>\nOne."), IMAGE, text("Two.\n</document>")]


def test_a_block_may_hold_anything() -> None:
    deep: Any = "One."
    for _ in range(150):
        deep = {"type": "web_fetch_tool_result", "content": [deep]}
    for odd in (deep, document(source=7), document(source={"type": ["x"]}), {"type": None}, {}):
        (block,), _ = plain(odd)
        assert block["type"] == "text" and block["text"]


def test_a_message_of_role_system_says_the_same_as_a_string_and_as_blocks() -> None:
    ephemeral = {"type": "ephemeral"}
    for content in ("Be brief.", [text("Be brief.", cache_control=ephemeral)]):
        assert reminder(system_text(content)) == (
            "<system-reminder>\nBe brief.\n</system-reminder>"
        )
    assert system_text([text(BILLING), text("One."), text(""), text("Two.")]) == "One.\n\nTwo."
    assert system_text(f"{BILLING}\n\nOne.") == "One."
    assert system_text(None) == system_text([7]) == ""


@pytest.mark.parametrize(
    ("system", "sent"),
    [
        ([text(BILLING), text("One.", x=1)], [text("One.", x=1)]),
        ([text("One."), text(BILLING)], [text("One.")]),
        ([text(f"{BILLING}\nOne.", x=1)], [text("One.", x=1)]),
        (f"{BILLING}\n\nOne.", "One."),
        ([text(BILLING)], None),
        (BILLING, None),
    ],
)
def test_the_billing_header_is_left_out(system: Any, sent: Any) -> None:
    assert without_billing(system) == sent


@pytest.mark.parametrize(
    "system",
    ["", "One.", f"One.\n{BILLING}", [], [text("One.")], [text(f"One. {BILLING}")], None, 7, [7]],
)
def test_a_system_without_one_is_the_very_object(system: Any) -> None:
    assert without_billing(system) is system
