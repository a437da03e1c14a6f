"""Chat streams written by hand, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dragoman.bridge.envelope import open_sealed
from dragoman.bridge.responses.dialects import DIALECTS, OPENAI, Dialect
from dragoman.bridge.turn_context import Tool
from dragoman.notes import Evidence
from dragoman.wire.sse import Frame, FrameSplitter

from .grammar import check, check_prefix
from .replying import (
    DONE,
    TOOLS,
    USAGE,
    Run,
    call,
    calls,
    chunk,
    ended,
    feed,
    new_reply,
    run,
    run_body,
    run_bytes,
    sse,
    text,
    turn,
)

EVERY_DIALECT = pytest.mark.parametrize(
    "dialect", DIALECTS.values(), ids=lambda dialect: dialect.name
)
RICH = [
    chunk({"role": "assistant", "content": "", "reasoning_content": None}),
    chunk({"reasoning_content": "The user wants "}),
    chunk({"reasoning_content": "an é and a 😀."}),
    text("Let me "),
    text("look."),
    calls(call(0, "", name="weather", call_id="functions.weather:0")),
    calls(call(0, '{"city":')),
    calls(call(0, '"Zürich"}')),
    calls(call(1, '{"input":"*** Begin', name="apply", call_id="functions.apply:1")),
    calls(call(1, ' Patch\\n\\u00e9"}')),
    *ended("tool_calls"),
]


def texts(run_: Run) -> list[str]:
    """The text of every message."""
    return [
        "".join(part.get("text", part.get("refusal")) for part in item["content"])
        for item in run_.output
        if item["type"] == "message"
    ]


def thoughts(run_: Run) -> list[str]:
    """The text of every reasoning item, as its envelope carries it."""
    return [
        open_sealed(item["encrypted_content"]) or ""
        for item in run_.output
        if item["type"] == "reasoning"
    ]


# The order of a whole turn.


@EVERY_DIALECT
def test_a_turn_with_reasoning_text_and_calls_is_whole_in_every_dialect(dialect: Dialect) -> None:
    got = run(RICH, dialect)
    assert thoughts(got) == ["The user wants an é and a 😀."]
    assert texts(got) == ["Let me look."]
    function, custom = got.output[2:]
    arguments = function.get("function", function)["arguments"]
    assert json.loads(arguments) == {"city": "Zürich"}
    assert custom["input"] == "*** Begin Patch\né"
    assert [item["call_id"] for item in got.output[2:]] == [
        "functions.weather:0",
        "functions.apply:1",
    ]
    assert got.evidence.empty


@EVERY_DIALECT
def test_the_cut_of_the_bytes_changes_nothing(dialect: Dialect) -> None:
    data = sse(RICH)
    whole = run_bytes([data], dialect)
    # Every cut for one dialect: what reads is the same for all, and knows none.
    for cut in range(1, len(data), 1 if dialect is OPENAI else 13):
        pieces = [data[:cut], data[cut:]]
        frames = b"".join(frame.raw for frame in run_bytes_unchecked(pieces, dialect))
        assert frames == b"".join(frame.raw for frame in whole.frames)
    single = run_bytes([data[at : at + 1] for at in range(len(data))], dialect)
    assert single.frames == whole.frames


def run_bytes_unchecked(pieces: list[bytes], dialect: Dialect) -> list[Frame]:
    reply = new_reply(Evidence(), dialect)
    splitter = FrameSplitter()
    frames = reply.open()
    for piece in pieces:
        for frame in splitter.feed(piece):
            frames += feed(reply, frame)
    return frames + reply.close()


def test_a_delta_leaves_in_the_call_that_brought_it() -> None:
    reply = new_reply(Evidence())
    reply.open()
    wanted = ["The user wants ", "an é and a 😀.", "Let me ", "look."]
    wanted += ['{"city":', '"Zürich"}', "*** Begin", " Patch\né"]
    got = []
    for value in RICH:
        for frame in feed(reply, Frame(sse([value], done=False))):
            event = json.loads(frame.data or b"")
            if event.get("delta"):
                got.append(event["delta"])
    assert got == wanted


def test_the_start_leaves_with_the_headers_and_only_once() -> None:
    reply = new_reply(Evidence())
    first = reply.open()
    assert [event["type"] for event in check_prefix(first, OPENAI).events] == [
        "response.created",
        "response.in_progress",
    ]
    assert reply.open() == []
    later = new_reply(Evidence())
    assert [frame.raw for frame in feed(later, Frame(b": hello\n\n"))] == [f.raw for f in first]


def test_heartbeats_come_only_between_the_start_and_the_terminal() -> None:
    reply = new_reply(Evidence())
    assert reply.heartbeat() == []
    frames = reply.open() + reply.heartbeat()
    frames += feed(reply, Frame(sse([text("x")], done=False))) + reply.heartbeat()
    check_prefix(frames, OPENAI)
    assert b'"delta":""' in frames[-1].raw
    reply.close()
    assert reply.writer.ended
    assert reply.heartbeat() == []
    assert feed(reply, Frame(sse([text("late")], done=False))) == []
    assert reply.close() == []
    assert reply.fail("server_error", "late") == []


# Text, refusal, reasoning.


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


def test_a_line_end_before_a_call_is_no_message() -> None:
    got = run([text("\n\n"), calls(call(0, "{}", name="echo")), text("\n"), *ended("tool_calls")])
    assert [item["type"] for item in got.output] == ["function_call"]
    assert "dropped blank text beside a call" in got.noted


def test_blank_text_is_kept_where_there_is_other_text_or_nothing_else() -> None:
    assert texts(run([text("\n"), text("a"), text("\n"), *ended()])) == ["\na\n"]
    assert texts(run([text("\n"), *ended()])) == ["\n"]


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


# Calls of every kind.


def one_call(name: str, arguments: str, finish: str = "tool_calls") -> Run:
    return run([calls(call(0, arguments, name=name, call_id="c1")), *ended(finish)])


def test_a_namespaced_function_comes_back_under_its_own_name_and_namespace() -> None:
    (item,) = one_call("mcp__files__read", '{"path":"a"}').output
    assert (item["type"], item["name"], item["namespace"]) == (
        "function_call",
        "read",
        "mcp__files",
    )


def test_a_custom_call_comes_back_with_raw_input() -> None:
    got = one_call("apply", '{"input":"line 1\\nline \\"2\\""}')
    assert got.output[0]["type"] == "custom_tool_call"
    assert got.output[0]["input"] == 'line 1\nline "2"'
    assert got.evidence.empty


@pytest.mark.parametrize(
    ("arguments", "wanted", "noted"),
    [
        ("", "", ""),
        ("{}", "", ""),
        ('{"patch":"x"}', "x", ""),
        ('{"note":1,"input":"x"}', "x", ""),
        ("*** Begin Patch", "*** Begin Patch", "input that is not JSON"),
        ('{"input":{"a":1}}', '{"input":{"a":1}}', "input that is no string"),
        ('{"input":"x","more":1}', "x", "more than an input"),
    ],
)
def test_a_custom_call_of_another_form_still_gives_an_input(
    arguments: str, wanted: str, noted: str
) -> None:
    got = one_call("apply", arguments)
    assert got.output[0]["input"] == wanted
    assert noted in got.noted
    assert bool(noted) == bool(got.noted)


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_half_an_input_is_never_handed_over(finish: str) -> None:
    """Some hosts say so at a limit, too; a client would run the half."""
    for half in ('{"input":"rm -rf bui', '{"input": ', '{"input"', '{"inp', "{"):
        got = one_call("exec", half, finish)
        assert (got.response["status"], got.output[0]["status"]) == ("failed", "incomplete")
        assert "response.output_item.done" not in got.types
    assert one_call("exec", '{"input":"ls"', finish).output[0]["input"] == "ls"


def test_a_local_shell_call_carries_its_action() -> None:
    (item,) = one_call("local_shell", '{"command":["ls","-l"],"timeout_ms":9}').output
    assert item["type"] == "local_shell_call"
    assert item["action"] == {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 9}


def test_a_shell_call_carries_its_action() -> None:
    (item,) = one_call("shell", '{"commands":["ls"],"timeout_ms":true}').output
    assert item["type"] == "shell_call"
    assert item["action"] == {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    assert item["environment"] == {"type": "local"}


def test_an_apply_patch_call_carries_its_operation() -> None:
    operation = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"}
    (item,) = one_call("apply_patch", json.dumps(operation)).output
    assert (item["type"], item["operation"]) == ("apply_patch_call", operation)


def test_a_tool_search_call_carries_object_arguments() -> None:
    (item,) = one_call("tool_search", '{"query":"mail"}').output
    assert item["type"] == "tool_search_call"
    assert (item["arguments"], item["execution"]) == ({"query": "mail"}, "client")


UNFIT = [
    *('{"command":', "[]", "1e999", '{"type":1e999}', "{}", '{"type":"delete_file"}'),
    '{"command":"ls","commands":[3],"type":[]}',
]
DOES_NOTHING: dict[str, dict[str, Any]] = {
    "local_shell": {
        "type": "local_shell_call",
        "status": "incomplete",
        "action": {"type": "exec", "command": [], "env": {}},
    },
    "shell": {
        "type": "shell_call",
        "status": "incomplete",
        "action": {"commands": [], "timeout_ms": None, "max_output_length": None},
        "environment": {"type": "local"},
    },
    "apply_patch": {"type": "apply_patch_call", "status": "completed"},
}


@pytest.mark.parametrize("name", DOES_NOTHING)
@pytest.mark.parametrize("arguments", UNFIT)
def test_a_structured_call_that_does_not_fit_is_an_item_of_its_kind_that_does_nothing(
    name: str, arguments: str
) -> None:
    got = one_call(name, arguments)
    (item,) = got.output
    assert item.items() >= DOES_NOTHING[name].items()
    if name == "apply_patch":
        operation = {"type": "update_file", "path": "", "diff": arguments}
        assert item["operation"] == operation
    assert f"invalid arguments of {name}" in got.noted


@pytest.mark.parametrize("arguments", ['{"query":', "[]", "1e999", "mail", '"mail"'])
def test_a_tool_search_that_does_not_fit_searches_for_its_arguments(arguments: str) -> None:
    got = one_call("tool_search", arguments)
    (item,) = got.output
    assert (item["type"], item["status"]) == ("tool_search_call", "completed")
    assert item["arguments"] == {"query": arguments}
    assert "invalid arguments of tool_search" in got.noted


CUT_ENDS: dict[str, list[Any]] = {
    "length": ended("length"),
    "content filter": ended("content_filter"),
    "error": [{"error": {"message": "boom"}}],
    "failure": ended("network_error"),
    "nothing": [],
}


AT_A_LIMIT = ("length", "content filter")
DONE_EVENTS = (
    *("response.output_text.done", "response.refusal.done", "response.content_part.done"),
    *("response.reasoning_summary_text.done", "response.reasoning.done"),
    *("response.reasoning_summary_part.done", "response.function_call_arguments.done"),
    *("response.custom_tool_call_input.done", "response.output_item.done"),
)


def cut_off(values: list[Any], end: str, dialect: Dialect = OPENAI) -> Run:
    return run([*values, *CUT_ENDS[end]], dialect, done=end != "nothing")


@EVERY_DIALECT
@pytest.mark.parametrize("end", CUT_ENDS)
@pytest.mark.parametrize("name", ["echo", "mcp__files__read", "exec"])
@pytest.mark.parametrize(
    "arguments", ["", " ", "{", '{"inp', '{"input":"a', '{"input":"a\\', '{"a":1,"input":"x"']
)
def test_a_call_that_is_cut_is_left_open_and_listed(
    name: str, end: str, arguments: str, dialect: Dialect
) -> None:
    got = cut_off([calls(call(0, arguments, name=name, call_id="c1"))], end, dialect)
    (item,) = got.output
    assert (item["status"], item["call_id"]) == ("incomplete", "c1")
    assert set(got.types).isdisjoint(DONE_EVENTS)
    assert got.types[-1] == ("response.incomplete" if end in AT_A_LIMIT else "response.failed")
    text = item.get("function", item).get("arguments", item.get("input"))
    assert text == got.story.deltas[0]


@pytest.mark.parametrize("end", CUT_ENDS)
@pytest.mark.parametrize("name", ["local_shell", "shell", "apply_patch", "tool_search"])
@pytest.mark.parametrize("arguments", ["", " ", '{"command":["rm"', '{"commands":["rm"'])
def test_a_structured_call_that_is_cut_was_never_told_and_is_dropped(
    name: str, end: str, arguments: str
) -> None:
    got = cut_off([calls(call(0, arguments, name=name))], end)
    assert got.output == []
    assert "dropped" in got.noted


@EVERY_DIALECT
@pytest.mark.parametrize("end", ["error", "failure", "nothing"])
@pytest.mark.parametrize(
    "value",
    [
        text("half an ans"),
        chunk({"refusal": "I can"}),
        chunk({"reasoning_content": "The user"}),
        calls(call(0, '{"a":1}', name="echo")),
        calls(call(0, '{"input":"rm -rf"}', name="apply")),
    ],
    ids=["text", "refusal", "reasoning", "call", "custom call"],
)
def test_a_failure_ends_nothing_that_is_open(value: Any, end: str, dialect: Dialect) -> None:
    got = cut_off([value], end, dialect)
    assert set(got.types).isdisjoint(DONE_EVENTS)
    assert got.types[-2:] == ["error", "response.failed"]
    assert [item["status"] for item in got.output] == ["incomplete"]


def test_what_was_whole_before_a_failure_stays_so() -> None:
    values = [chunk({"reasoning_content": "why"}), text("so"), calls(call(0, "{", name="echo"))]
    got = cut_off(values, "error")
    assert [item["status"] for item in got.output] == ["completed", "completed", "incomplete"]


@EVERY_DIALECT
@pytest.mark.parametrize("end", AT_A_LIMIT)
def test_a_limit_ends_text_and_reasoning_and_calls_that_are_whole(
    end: str, dialect: Dialect
) -> None:
    whole = calls(call(0, '{"a":1}', name="echo"))
    for value in (text("half"), chunk({"reasoning_content": "half"}), whole):
        got = cut_off([value], end, dialect)
        assert got.types[-2:] == ["response.output_item.done", "response.incomplete"]
        assert [item["status"] for item in got.output] == [
            "completed" if value is whole else "incomplete"
        ]


@EVERY_DIALECT
def test_what_waits_behind_a_call_that_a_limit_cuts_is_told(dialect: Dialect) -> None:
    values = [
        calls(call(0, '{"a', name="echo")),
        text("later"),
        calls(call(1, "{}", name="weather"), call(2, '{"b', name="apply")),
        calls(call(3, '{"commands":["ls"]}', name="shell"), call(4, "{", name="shell")),
    ]
    got = run([*values, *ended("length")], dialect)
    assert [item["status"] for item in got.output] == [
        *("incomplete", "completed", "completed", "incomplete", "completed")
    ]
    assert texts(got) == ["later"]
    assert "left open call of echo that was cut" in got.noted
    assert "left open call of apply that was cut" in got.noted
    assert "dropped call of shell that was cut" in got.noted


@EVERY_DIALECT
def test_a_heartbeat_after_a_call_was_left_knows_of_it(dialect: Dialect) -> None:
    reply = new_reply(Evidence(), dialect)
    frames = reply.open()
    for value in [calls(call(0, '{"a', name="echo")), chunk(finish="length")]:
        frames += feed(reply, Frame(sse([value], done=False))) + reply.heartbeat()
    story = check(frames + reply.heartbeat() + reply.close(), dialect)
    assert story.response["status"] == "incomplete"


@EVERY_DIALECT
@pytest.mark.parametrize("arguments", ["", '{"a', '{"a":1}'])
def test_a_reply_that_is_cancelled_ends_no_call(arguments: str, dialect: Dialect) -> None:
    reply = new_reply(Evidence(), dialect)
    frames = reply.open()
    for value in [text("a"), calls(call(0, arguments, name="echo"))]:
        frames += feed(reply, Frame(sse([value], done=False)))
    raw = b"".join(frame.raw for frame in frames + reply.cancel())
    assert raw.count(b"event: response.output_item.done") == 1
    assert [item["status"] for item in reply.response["output"]] == ["completed", "incomplete"]
    assert reply.response["status"] == "cancelled"


def test_done_alone_does_not_end_a_call_that_has_no_arguments() -> None:
    got = run([calls(call(0, "", name="echo"))])
    assert got.types[-1] == "response.failed"
    assert [item["status"] for item in got.output] == ["incomplete"]


def head_told(name: str, *, tools: Mapping[str, Tool] = TOOLS) -> tuple[bool, bool]:
    """Whether a call was told with its name, and whether it was with its first argument."""
    reply = new_reply(Evidence(), OPENAI, replace(turn(), tools=tools))
    reply.open()
    told = []
    for value in (calls(call(0, "", name=name)), calls(call(0, "{"))):
        frames = feed(reply, Frame(sse([value], done=False)))
        told.append(b"output_item.added" in b"".join(frame.raw for frame in frames))
    return told[0], told[1]


def test_a_call_is_told_as_soon_as_its_name_is_certain() -> None:
    assert head_told("echo") == (True, False)
    assert head_told("exec") == (True, False)
    assert head_told("read") == (True, False)
    more = {name: Tool("function", name) for name in ("read", "read_file", "find")}
    assert head_told("read_file", tools=more) == (True, False)
    assert head_told("read", tools=more) == (False, True)
    assert head_told("fin", tools=more) == (False, True)
    assert head_told("invented", tools=more) == (False, True)


@EVERY_DIALECT
@pytest.mark.parametrize("name", ["echo", "exec"])
@pytest.mark.parametrize("arguments", ["", " ", '{"input":"x"}'])
def test_heartbeats_before_the_arguments_are_no_arguments(
    name: str, arguments: str, dialect: Dialect
) -> None:
    values = [calls(call(0, "", name=name)), calls(call(0, arguments)), *ended("tool_calls")]
    reply = new_reply(Evidence(), dialect)
    frames = reply.open()
    for value in values:
        frames += feed(reply, Frame(sse([value], done=False))) + reply.heartbeat()
    frames += reply.close()
    (item,) = check(frames, dialect).items
    if name == "exec":
        assert item["input"] == ("x" if arguments.strip() else "")
    else:
        assert json.loads(item.get("function", item)["arguments"]) == (
            {"input": "x"} if arguments.strip() else {}
        )


def test_a_namespaced_function_called_by_its_bare_name_keeps_its_namespace() -> None:
    got = one_call("read", "{}")
    assert (got.output[0]["name"], got.output[0]["namespace"]) == ("read", "mcp__files")
    assert "inferred namespace of tool read" in got.noted


@pytest.mark.parametrize(
    "spelled", ["functions.mcp__files__read", "mcp__files.read", "MCP/Files/Read"]
)
def test_a_name_spelled_otherwise_is_the_tool_it_means(spelled: str) -> None:
    got = one_call(spelled, "{}")
    assert (got.output[0]["name"], got.output[0]["namespace"]) == ("read", "mcp__files")
    assert f"inferred spelling of tool {spelled}" in got.noted


def test_a_bare_name_of_two_namespaces_is_not_guessed_at() -> None:
    tools = {f"{space}__read": Tool("function", "read", space) for space in ("a", "b")}
    made = replace(turn(), tools=tools)
    got = run([calls(call(0, "{}", name="read")), *ended()], turn_=made)
    assert "namespace" not in got.output[0]
    assert "called undeclared tool read" in got.noted


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


def test_log_probabilities_of_what_was_no_tag_after_all_are_kept() -> None:
    got = run([logged("<th"), logged("e>"), *ended()])
    tokens = [token["token"] for token in got.output[0]["content"][0]["logprobs"]]
    assert tokens == ["<th", "e>"]


def test_an_undeclared_tool_is_a_function_call_under_its_name_and_recorded() -> None:
    got = one_call("invented", "{}")
    assert got.output[0]["name"] == "invented"
    assert "called undeclared tool invented" in got.noted


@pytest.mark.parametrize("arguments", ["", " ", "\n", None])
def test_empty_arguments_are_an_empty_object(arguments: Any) -> None:
    got = run([calls(call(0, arguments, name="echo")), *ended("tool_calls")])
    assert json.loads(got.output[0]["arguments"]) == {}
    assert got.output[0]["status"] == "completed"


@pytest.mark.parametrize("arguments", ['{"a":', "not json", "[]", "null"])
def test_invalid_arguments_are_delivered_and_recorded(arguments: str) -> None:
    got = one_call("echo", arguments)
    assert got.output[0]["arguments"] == arguments
    assert "invalid arguments of echo" in got.noted


LONG = "x" * 300_000


@pytest.mark.parametrize(
    ("arguments", "invalid"),
    [
        (f'{{"a": "{LONG}"}}', False),
        (f' \n{{"a": "{LONG}"}} ', False),
        (f'{{"a": "{LONG}', True),
        (f'["{LONG}"]', True),
        (f'"{LONG}"', True),
        (LONG, True),
        (f'{{"a": "{LONG}"}} x', True),
    ],
    ids=["object", "blanks", "cut", "array", "string", "no JSON", "more"],
)
def test_invalid_arguments_are_recorded_however_long(arguments: str, invalid: bool) -> None:
    got = one_call("echo", arguments)
    assert got.output[0]["arguments"] == arguments
    assert ("invalid arguments of echo" in got.noted) is invalid


def test_a_call_item_is_closed_with_the_finish_reason_not_with_the_usage() -> None:
    reply = new_reply(Evidence())
    reply.open()
    feed(reply, Frame(sse([calls(call(0, "{}", name="echo"))], done=False)))
    frames = feed(reply, Frame(sse([chunk(finish="tool_calls")], done=False)))
    assert b"response.output_item.done" in frames[-1].raw
    assert not reply.writer.ended


# Ends.


@pytest.mark.parametrize("done", [True, False])
def test_a_finish_reason_is_enough_with_or_without_done(done: bool) -> None:
    got = run([text("a"), chunk(finish="stop")], done=done)
    assert got.response["status"] == "completed"
    assert got.response["completed_at"] == 1_700_000_042


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("content_filter", "content_filter"),
    ],
)
@EVERY_DIALECT
def test_a_turn_cut_short_is_incomplete(dialect: Dialect, finish: str, reason: str) -> None:
    got = run([text("a"), *ended(finish)], dialect)
    assert got.types[-1] == "response.incomplete"
    assert got.response["incomplete_details"] == {"reason": reason}
    assert got.output[0]["status"] == "incomplete"


def test_a_call_cut_by_length_is_incomplete_and_a_whole_one_is_not() -> None:
    values = [calls(call(0, '{"a":1}', name="echo")), calls(call(1, '{"a', name="echo"))]
    got = run([*values, *ended("length")])
    assert [item["status"] for item in got.output] == ["completed", "incomplete"]
    assert got.output[1]["arguments"] == '{"a'


def test_an_early_end_is_a_failure() -> None:
    got = run([text("half an ans")], done=False)
    assert got.types[-2:] == ["error", "response.failed"]
    assert got.response["error"]["code"] == "server_error"
    assert got.output[0]["status"] == "incomplete"
    assert texts(got) == ["half an ans"]


def test_done_without_a_finish_reason_is_a_whole_turn_and_recorded() -> None:
    got = run([text("a"), calls(call(0, "{}", name="echo"))])
    assert got.response["status"] == "completed"
    assert "inferred finish reason" in got.noted


def test_done_inside_the_arguments_of_a_call_is_a_failure() -> None:
    got = run([calls(call(0, '{"a":', name="echo"))])
    assert got.types[-1] == "response.failed"
    assert got.output[0]["status"] == "incomplete"


@EVERY_DIALECT
@pytest.mark.parametrize(
    "values",
    [
        [chunk({"reasoning_content": "The user"})],
        [chunk({"reasoning": "The user"}), text("\n\n")],
        [text("<think>The user")],
        [text("<think>The user</think>\n")],
        [chunk({"role": "assistant", "content": ""})],
    ],
)
def test_reasoning_alone_and_done_is_a_turn_that_was_cut(
    values: list[Any], dialect: Dialect
) -> None:
    got = run(values, dialect)
    assert got.response["error"]["code"] == "server_error"
    assert [item["status"] for item in got.output] == ["incomplete"] * len(got.output)
    assert run([*values, *ended()], dialect).types[-1] == "response.completed"


@pytest.mark.parametrize("data", [b"", DONE, b": only a comment\n\n", b"data: 1\n\n" + DONE])
def test_a_stream_without_a_turn_is_a_failure(data: bytes) -> None:
    got = run_bytes([data])
    assert got.types[-1] == "response.failed"
    assert got.output == []


def test_an_empty_turn_is_completed_and_empty() -> None:
    got = run([chunk({"role": "assistant", "content": ""}), *ended()])
    assert (got.response["status"], got.output) == ("completed", [])
    assert "empty turn" in got.noted


def test_tool_calls_as_finish_reason_without_a_call_is_a_whole_turn() -> None:
    got = run([text("a"), chunk({"tool_calls": []}), *ended("tool_calls")])
    assert got.response["status"] == "completed"


@pytest.mark.parametrize("finish", [None, "", 0, 7, [], {}, True])
def test_a_finish_reason_of_another_type_is_none(finish: Any) -> None:
    got = run([text("a"), chunk(finish=finish), text("b"), *ended()])
    assert texts(got) == ["ab"]


def test_an_unknown_finish_reason_is_the_end_of_a_whole_turn() -> None:
    got = run([text("a"), *ended("because")])
    assert got.response["status"] == "completed"
    assert "unknown finish reason because" in got.noted


def test_what_comes_after_the_finish_reason_is_still_told() -> None:
    got = run([text("a"), chunk(finish="stop"), text("b"), *ended()])
    assert texts(got) == ["a", "b"]


def test_an_upstream_that_dies_fails_the_turn_and_closes_what_is_open() -> None:
    reply = new_reply(Evidence())
    frames = reply.open() + feed(reply, Frame(sse([text("a")], done=False)))
    frames += reply.fail("server_error", "connection reset")
    story = check_prefix(frames, OPENAI)
    assert story.events[-2]["message"] == "connection reset"
    assert story.response["output"][0]["status"] == "incomplete"


def test_an_upstream_that_dies_after_the_finish_reason_has_lost_only_its_usage() -> None:
    reply = new_reply(Evidence())
    frames = reply.open()
    frames += feed(reply, Frame(sse([text("a"), chunk(finish="stop")][:1], done=False)))
    frames += feed(reply, Frame(sse([chunk(finish="stop")], done=False)))
    frames += reply.fail("server_error", "connection reset")
    assert check_prefix(frames, OPENAI).response["status"] == "completed"


def test_what_waits_behind_a_call_is_dropped_and_recorded_when_the_turn_fails() -> None:
    values = [calls(call(0, '{"a', name="echo")), text("later"), calls(call(1, "{}", name="echo"))]
    got = run([*values, {"error": {"message": "boom"}}])
    assert [item["status"] for item in got.output] == ["incomplete"]
    assert "dropped what waited in line ×2" in got.noted


# Frames that are none.


def test_comments_other_fields_and_broken_events_are_passed_over() -> None:
    data = b": ping\n\nevent: keepalive\n\nid: 1\n\ndata: {broken\n\ndata: 7\n\ndata: null\n\n"
    data += b"event: message\ndata: " + json.dumps(text("a")).encode() + b"\r\n\r\n"
    got = run_bytes([data + sse(ended())])
    assert texts(got) == ["a"]
    assert "skipped event that is not JSON" in got.noted
    assert "skipped event that is no chunk ×2" in got.noted


def test_a_piece_of_an_oversized_event_is_skipped_and_recorded() -> None:
    evidence = Evidence()
    reply = new_reply(evidence)
    feed(reply, Frame(b"data: {", whole=False))
    assert not evidence.empty


def test_further_choices_are_dropped_and_recorded() -> None:
    got = run([text("a"), chunk({"content": "b"}, choice={"index": 1}), *ended()])
    assert texts(got) == ["a"]
    assert "dropped further choice" in got.noted


def of_choice(index: int, delta: Any, finish: Any = None) -> dict[str, Any]:
    return chunk(delta, finish, choice={"index": index})


def called(arguments: str, name: str = "echo", call_id: str = "c") -> dict[str, Any]:
    return {"tool_calls": [call(0, arguments, name=name, call_id=call_id)]}


TWO_CHOICES: dict[str, list[Any]] = {
    "one after the other": [
        of_choice(0, {"content": "Let me"}, "stop"),
        of_choice(1, called('{"a":')),
        of_choice(1, called("1}")),
        of_choice(1, {}, "tool_calls"),
    ],
    "mixed": [
        of_choice(0, {"content": "Let"}),
        of_choice(1, {"role": "assistant"}),
        of_choice(0, {"content": " me"}),
        of_choice(1, called('{"a":')),
        of_choice(0, {}, "stop"),
        of_choice(1, called("1}")),
        of_choice(1, {}, "tool_calls"),
    ],
    "one finish reason": [
        of_choice(0, {"content": "Let me"}),
        of_choice(1, called('{"a":1}')),
        of_choice(0, {}, "tool_calls"),
    ],
    "in one chunk": [
        chunk()
        | {
            "choices": [
                {"index": 0, "delta": {"content": "Let me"}, "finish_reason": "tool_calls"},
                {"index": 1, "delta": called('{"a":1}'), "finish_reason": "tool_calls"},
            ]
        }
    ],
    "text in the second": [
        of_choice(1, {"content": "Let me"}),
        of_choice(0, called('{"a":1}'), "tool_calls"),
    ],
}


@EVERY_DIALECT
@pytest.mark.parametrize("values", TWO_CHOICES.values(), ids=TWO_CHOICES)
def test_text_in_one_choice_and_a_call_in_another_are_one_turn(
    values: list[Any], dialect: Dialect
) -> None:
    got = run(values, dialect)
    message, made = sorted(got.output, key=lambda item: item["type"] != "message")
    assert (texts(got), message["status"]) == (["Let me"], "completed")
    assert json.loads(made.get("function", made)["arguments"]) == {"a": 1}


def test_text_and_a_call_in_two_choices_of_a_message_are_one_turn() -> None:
    choices = [
        {"index": 0, "message": {"content": "Let me"}, "finish_reason": "tool_calls"},
        {"index": 1, "message": called('{"a":1}'), "finish_reason": "tool_calls"},
        {"index": 2, "message": called('{"a":2}', call_id="d"), "finish_reason": "tool_calls"},
    ]
    got = run_body({"choices": choices, "usage": USAGE})
    assert [item["type"] for item in got.output] == ["message", *["function_call"] * 2]
    assert got.evidence.empty


@pytest.mark.parametrize("cut", ["", "{", '{"a":'])
def test_a_call_that_is_cut_in_another_choice_is_not_whole(cut: str) -> None:
    values = [of_choice(0, {"content": "Let me"}, "stop"), of_choice(1, called(cut))]
    assert run(values, done=False).response["status"] == "failed"
    got = run([*values, of_choice(1, {}, "length")])
    assert got.response["status"] == "incomplete"
    assert got.output[1]["status"] == "incomplete"


def test_calls_of_two_choices_are_numbered_by_each() -> None:
    values = [
        of_choice(0, called('{"a":')),
        of_choice(1, called('{"b":', "weather", "d")),
        of_choice(0, {"tool_calls": [call(0, "1}")]}),
        of_choice(1, {"tool_calls": [call(0, "2}")]}),
    ]
    got = run([*values, of_choice(0, {}, "tool_calls"), of_choice(1, {}, "tool_calls")])
    assert [item["arguments"] for item in got.output] == ['{"a":1}', '{"b":2}']


def test_a_message_in_place_of_a_delta_is_read() -> None:
    message = {"role": "assistant", "content": "a", "tool_calls": [call(name="echo")]}
    value = chunk(choice={"message": message, "delta": None, "finish_reason": "tool_calls"})
    got = run([value])
    assert [item["type"] for item in got.output] == ["message", "function_call"]


# Usage.


def test_usage_has_every_field_wherever_the_upstream_counts() -> None:
    whole = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    got = run([text("a"), *ended(usage=whole)])
    assert got.response["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    assert got.evidence.empty


@pytest.mark.parametrize(
    "cached",
    [
        {"cached_tokens": 64},
        {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
        {"prompt_tokens_details": {"cached_tokens": 64}},
        {"cache_read_input_tokens": 64},
    ],
)
def test_cached_tokens_are_found_where_each_host_puts_them(cached: dict[str, Any]) -> None:
    got = run([text("a"), *ended(usage=USAGE | cached)])
    assert got.response["usage"]["input_tokens_details"]["cached_tokens"] == 64


def test_usage_in_the_choice_is_read() -> None:
    last = chunk(finish="stop", choice={"usage": USAGE | {"cached_tokens": 3}})
    got = run([text("a"), last])
    assert got.response["usage"]["total_tokens"] == 18
    assert got.response["usage"]["input_tokens_details"]["cached_tokens"] == 3


@pytest.mark.parametrize(
    "usage",
    [None, {}, [], "x", {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": True}],
)
def test_usage_that_says_nothing_is_estimated_and_recorded(usage: Any) -> None:
    asked = replace(turn(), estimate=1000)
    got = run([text("y" * 400), chunk(finish="stop", usage=usage)], turn_=asked)
    told = got.response["usage"]
    assert told["input_tokens"] == 1000
    assert 90 < told["output_tokens"] < 110
    assert told["total_tokens"] == told["input_tokens"] + told["output_tokens"]
    assert "estimated usage" in got.noted


def test_counts_too_large_to_be_written_are_not_believed() -> None:
    usage = json.dumps(USAGE).replace("11", "9" * 4000)
    value = json.dumps(chunk(finish="stop")).replace('"choices"', f'"usage": {usage}, "choices"')
    got = run_bytes([sse([text("a")], done=False), f"data: {value}\n\n".encode()])
    assert got.response["usage"]["input_tokens"] < 1000
