"""What is read in the deltas of a chat stream: text, refusal, reasoning, annotations."""

from __future__ import annotations

from typing import Any

import pytest

from .replying import USAGE, call, chunk, ended, run, run_body, text, texts, thoughts


def test_a_refusal_is_a_refusal_part() -> None:
    got = run([chunk({"refusal": "I can"}), chunk({"refusal": "not."}), *ended()])
    assert got.output[0]["content"] == [{"type": "refusal", "refusal": "I cannot."}]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_from_either_field(field: str) -> None:
    got = run([chunk({field: "a"}), chunk({field: "b"}), text("c"), *ended()])
    assert (thoughts(got), texts(got)) == (["ab"], ["c"])
    assert got.output[0]["summary"] == [{"type": "summary_text", "text": "ab"}]


def test_reasoning_that_is_in_all_fields_at_once_counts_once() -> None:
    details = [{"type": "reasoning.text", "text": "a", "index": 0}]
    both = {"reasoning_content": "a", "reasoning": "a", "reasoning_details": details}
    assert thoughts(run([chunk(both), text("c"), *ended()])) == ["a"]


def test_reasoning_details_are_read_where_they_are_alone() -> None:
    details = [
        {"type": "reasoning.text", "text": "a"},
        {"type": "reasoning.summary", "summary": "b"},
    ]
    assert thoughts(run([chunk({"reasoning_details": details}), *ended()])) == ["ab"]


@pytest.mark.parametrize(
    "content",
    [
        ["<think>why</think>so"],
        list("<think>why</think>so"),
        ["\n<think>\nwhy</think>\n\nso"],
        list("\n<think>\nwhy</think>\n\nso"),
        ["<thi", "nk>w", "hy</", "think>", "\n", "so"],
    ],
)
def test_inline_think_becomes_reasoning_however_it_is_cut(content: list[str]) -> None:
    got = run([*map(text, content), *ended()])
    assert (thoughts(got), texts(got)) == (["why"], ["so"])
    assert "inline <think>" in got.noted


def test_inline_think_that_never_closes_is_all_reasoning() -> None:
    got = run([text("<think>why"), text(" not</thi"), *ended("length")])
    assert (thoughts(got), texts(got)) == (["why not</thi"], [])


def test_an_empty_inline_think_is_nothing() -> None:
    got = run([text("<think>\n\n</think>\n\nso"), *ended()])
    assert (thoughts(got), texts(got)) == ([], ["so"])


@pytest.mark.parametrize("content", ["a <think>b</think>", "<thinking>", "<", "<think", "  <thin"])
def test_a_think_tag_elsewhere_or_half_of_one_is_text(content: str) -> None:
    for pieces in ([content], list(content)):
        assert texts(run([*map(text, pieces), *ended()])) == [content]


def test_a_think_tag_after_a_reasoning_field_is_text() -> None:
    got = run([chunk({"reasoning_content": "a"}), text("<think>b"), *ended()])
    assert texts(got) == ["<think>b"]


def test_content_that_is_a_list_of_parts_is_read_by_its_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}
    parts = [thinking, {"type": "text", "text": "so"}, {"type": "image_url", "image_url": {}}, 1]
    got = run([chunk({"content": parts}), *ended()])
    assert (thoughts(got), texts(got)) == (["why"], ["so"])
    assert "dropped content part that is no text ×2" in got.noted


def test_annotations_belong_to_the_text_wherever_they_stand() -> None:
    citation = {"url": "https://example.org", "title": "t", "start_index": 0, "end_index": 5}
    element = {"type": "url_citation", "url_citation": citation}
    for values in (
        [chunk({"content": "Hello", "annotations": [element]})],
        [text("Hello"), chunk({"annotations": [element]})],
        [chunk({"annotations": [element]}), text("Hello")],
    ):
        got = run([*values, *ended()])
        assert got.output[0]["content"][0]["annotations"] == [{"type": "url_citation"} | citation]
        assert got.types.count("response.output_text.annotation.added") == 1


def test_annotations_in_openrouters_form_are_read() -> None:
    citation = {"url": "https://example.org", "title": "t", "start_index": 0, "end_index": 5}
    flat = {"type": "url_citation", "content": "words"} | citation
    got = run([chunk({"content": "Hello", "annotations": [flat]}), *ended()])
    assert got.output[0]["content"][0]["annotations"] == [{"type": "url_citation"} | citation]
    assert got.evidence.empty


SOURCES = ["https://a.example", {"url": "https://b.example", "title": "B"}, "https://a.example"]
CITED = [
    {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": 0}
    for url, title in (("https://a.example", ""), ("https://b.example", "B"))
]


@pytest.mark.parametrize(
    "values",
    [
        [chunk({"content": "a"}, citations=SOURCES), chunk({"content": "b"}, citations=SOURCES)],
        [chunk({"role": "assistant"}, citations=SOURCES), text("ab")],
        [text("ab"), chunk(finish="stop", citations=SOURCES)],
        [text("ab"), chunk({"citations": SOURCES})],
        [
            chunk({"reasoning_content": "c"}, citations=SOURCES[:1]),
            text("ab"),
            chunk(citations=SOURCES),
        ],
        [chunk({"content": "ab", "annotations": [CITED[0]]}, citations=SOURCES)],
    ],
)
def test_the_citations_of_a_chunk_are_annotations_each_once(values: list[Any]) -> None:
    got = run([*values, *ended()])
    assert got.output[-1]["content"][0]["annotations"] == CITED
    assert got.types.count("response.output_text.annotation.added") == 2
    assert got.evidence.empty


def test_the_citations_of_a_message_are_annotations() -> None:
    choice = {"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}
    got = run_body({"choices": [choice], "citations": SOURCES, "usage": USAGE})
    assert got.output[0]["content"][0]["annotations"] == CITED


RESULTS = [
    {"title": "A", "url": "https://a.example", "date": "2026-01-01", "snippet": "words"},
    {"title": "B", "url": "https://b.example"},
    {"title": 3, "url": "https://c.example"},
    {"title": "no address"},
]
URLS = ["https://a.example", "https://d.example"]
FOUND = [("https://a.example", "A"), ("https://b.example", "B")]
FOUND += [("https://c.example", ""), ("https://d.example", "")]


@pytest.mark.parametrize(
    "values",
    [
        [chunk({"content": "ab"}, search_results=RESULTS, citations=URLS)],
        [chunk({"content": "ab"}, citations=URLS, search_results=RESULTS)],
        [text("ab"), chunk(finish="stop", search_results=RESULTS, citations=URLS)],
        [text("ab"), chunk({"search_results": RESULTS, "citations": URLS})],
        [text("ab"), chunk(search_results=RESULTS), chunk(citations=URLS)],
    ],
)
def test_search_results_are_annotations_with_their_titles(values: list[Any]) -> None:
    got = run([*values, *ended()])
    found = got.output[-1]["content"][0]["annotations"]
    assert [(each["url"], each["title"]) for each in found] == FOUND
    assert got.evidence.empty


@pytest.mark.parametrize("count", [1, 300])
def test_the_search_results_of_a_message_are_annotations(count: int) -> None:
    choice = {"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}
    urls = [f"https://a.example/{n}" for n in range(count)]
    results = [{"url": url, "title": url[-3:]} for url in urls]
    body = {"choices": [choice], "citations": urls, "search_results": results, "usage": USAGE}
    got = run_body(body)
    found = got.output[0]["content"][0]["annotations"]
    assert [(each["url"], each["title"]) for each in found] == [(url, url[-3:]) for url in urls]


@pytest.mark.parametrize("sources", [{}, "x", 3, [None, 3, {}, {"url": 3}, []], [[]]])
def test_citations_of_another_form_are_none(sources: Any) -> None:
    got = run([chunk({"content": "ab", "citations": sources}, citations=sources), *ended()])
    assert got.output[0]["content"][0]["annotations"] == []


def test_an_annotation_without_text_or_of_an_unknown_form_is_recorded() -> None:
    element = {"type": "url_citation", "url_citation": {"url": "u"}}
    got = run([chunk({"annotations": [element, {"type": "new"}, 3]}), *ended()])
    assert "annotation without text" in got.noted
    assert "annotation of an unknown form ×2" in got.noted


def test_log_probabilities_go_with_their_text() -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
    top = {"token": "Ho", "logprob": -1, "bytes": None}
    tokens = [token | {"top_logprobs": [top, {"token": 3}]}, {"token": "x", "logprob": "y"}, 7]
    got = run([chunk({"content": "Hi"}, choice={"logprobs": {"content": tokens}}), *ended()])
    read = [token | {"top_logprobs": [{"token": "Ho", "bytes": [], "logprob": -1}]}]
    assert got.output[0]["content"][0]["logprobs"] == read


TOKEN = {"token": "t", "logprob": -1, "bytes": [116], "top_logprobs": []}


def logged(content: Any, **delta: Any) -> dict[str, Any]:
    token = TOKEN | {"token": str(content)}
    return chunk({"content": content, **delta}, choice={"logprobs": {"content": [token]}})


@pytest.mark.parametrize(
    "thought",
    [
        [logged("<think>"), logged("so"), logged("</think>"), logged("\n")],
        [logged("<think>so</"), logged("think>")],
        [logged("", reasoning_content="so")],
        [logged([{"type": "thinking", "thinking": "so"}])],
    ],
)
def test_log_probabilities_of_reasoning_are_not_the_answers(thought: list[Any]) -> None:
    got = run([*thought, logged("Hi"), logged("!"), *ended()])
    tokens = [token["token"] for token in got.output[1]["content"][0]["logprobs"]]
    assert tokens == ["Hi", "!"]


def test_a_text_that_was_held_has_no_log_probabilities() -> None:
    got = run([logged("<th"), logged("e>"), logged("Hi"), logged(""), logged("!"), *ended()])
    tokens = [token["token"] for token in got.output[0]["content"][0]["logprobs"]]
    assert tokens == ["Hi", "", "!"]


def test_a_message_in_place_of_a_delta_is_read() -> None:
    message = {"role": "assistant", "content": "a", "tool_calls": [call(name="echo")]}
    value = chunk(choice={"message": message, "delta": None, "finish_reason": "tool_calls"})
    got = run([value])
    assert [item["type"] for item in got.output] == ["message", "function_call"]
