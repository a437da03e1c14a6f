"""Native calls that carry a leak, as a table: deltas in, the calls that a client reads out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.chat_calls import CallAssembler, elements, read_delta
from dragoman.wire.sse import split
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse

A, B = '{"command":"ls"}', '{"path":"a","lines":[]}'
FILES = "mcp__files__read-file"


def call(
    index: int, arguments: str | None = None, name: str | None = None, call_id: str | None = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    element = {"index": index, "id": call_id, "type": call_id and "function"}
    element["function"] = {key: value for key, value in function.items() if value is not None}
    return {key: value for key, value in element.items() if value is not None}


def cut(*names: str) -> list[list[dict[str, Any]]]:
    """A call whose name comes in these pieces."""
    head, *others = names
    return [[call(0, "", head, "x")], *([call(0, name=name)] for name in others)]


TAGGED = A.replace('":', '</arg_key>":')
# The deltas of one call of bash with the arguments A, or of FILES with B, or of both.
DEFECTS: dict[str, list[list[dict[str, Any]]]] = {
    "a token after the name": [[call(0, "", "bash<|channel|>commentary", "x")], [call(0, A)]],
    "in a delta of its own": [*cut("bash", "<|channel|>commentary"), [call(0, A)]],
    **{
        name: [[call(0, "", name, "x")], [call(0, A)]]
        for name in ("functions.bash:0", "<tool_call>bash", "bash</tool_call>", "functions.bash")
    },
    "a name twice": [[call(0, "", "bashbash", "x")], [call(0, A)]],
    "a key with a tag": [[call(0, "", "bash", "x")], [call(0, A.replace('":', '</arg_key>":'))]],
    "a key with a tag, in pieces": [
        [call(0, "", "bash", "x")],
        [call(0, "{")],
        [call(0, '"command</arg_key>": ')],
        [call(0, '"ls"}')],
    ],
    **{
        f"a key with a tag that is cut at {at}": [
            [call(0, "", "bash", "x")],
            *([call(0, piece)] for piece in (TAGGED[:at], TAGGED[at:]) if piece),
        ]
        for at in range(1, len(TAGGED))
    },
    "a key with a tag, in characters": [
        [call(0, "", "bash", "x")],
        *([call(0, character)] for character in TAGGED),
    ],
    "a key with a tag, at once": [[call(0, A.replace('":', '<arg_key>":'), "bashbash", "x")]],
    "a call in the name": [
        [
            call(
                0,
                "",
                "bash<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
                "x",
            )
        ]
    ],
    "its last tags missing": [
        [call(0, "", "bash<arg_key>command</arg_key><arg_value>ls", "x")],
        [call(0, "{}")],
    ],
    "a name that is cut": [*cut("mcp__files__read-fi", "le"), [call(0, B[:5])], [call(0, B[5:])]],
    "an id that is cut": [*cut("func", "tions.", "mcp", FILES[3:], ":", "0"), [call(0, B)]],
    "cut twice": [*cut("mcp", "__files__", "read-file"), [call(0, B)]],
    "cut, with arguments": [*cut("mcp__files"), [call(0, B, "__read-file")]],
    "the name in every delta": [
        [call(0, "", "bash", "x")],
        [call(0, A[:4], "bash", "x")],
        [call(0, A[4:], "bash", "x")],
    ],
    "an id and an index for each fragment": [
        [call(0, "", "bash", "x")],
        [call(1, A[:4], "", "y")],
        [call(2, A[4:], "", "z")],
        [call(3, B[:4], FILES, "u")],
        [call(4, B[4:], "", "v")],
    ],
}
CLEAN = {
    "one": [[call(0, "", "bash", "x")], [call(0, A[:3])], [call(0, A[3:])]],
    "several": [[call(0, A, "bash", "x"), call(1, "", FILES, "y")], [call(1, B)]],
    **{
        name: [[call(0, "", name, "x")], [call(0, A)]]
        for name in ("rm<", "other.bash", "bash1", "functions.rm:0", "functions.basx")
    },
    "the beginning of a name, with arguments": [[call(0, A, "ba", "x")]],
    "the id in every delta": [[call(0, A[:3], "bash", "x")], [call(0, A[3:], call_id="x")]],
    "id first, name later": [
        [call(0, call_id="x")],
        [call(0, name="bash")],
        [call(0, A)],
        [call(1, call_id="y")],
        [call(1, B, FILES)],
    ],
    "name last": [
        [call(0, A[:3], "bash", "x")],
        [call(0, A[3:])],
        [call(1, B, call_id="y")],
        [call(1, name=FILES)],
    ],
    "mixed": [
        [call(0, "", "bash", "x")],
        [call(1, "", "bash", "y")],
        [call(1, A[:3])],
        [call(0, A[:3])],
        [call(1, A[3:])],
        [call(0, A[3:])],
    ],
}


def stream(deltas: list[list[dict[str, Any]]], *, finished: bool = True) -> bytes:
    chunks = [chunk({"tool_calls": elements}) for elements in deltas]
    return sse([chunk({"role": "assistant"}), *chunks, *[chunk({}, "tool_calls")] * finished])


def meant(shape: str) -> list[tuple[str, Any]]:
    text = json.dumps(DEFECTS[shape])
    return [("bash", json.loads(A))] * ("bash" in text) + [(FILES, json.loads(B))] * ("mcp" in text)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("shape", DEFECTS)
def test_a_client_reads_the_calls_that_were_meant(shape: str, finished: bool) -> None:
    evidence = Evidence()
    out = read(repair(stream(DEFECTS[shape], finished=finished), REQUEST, evidence=evidence))
    assert [(each["name"], json.loads(each["arguments"])) for each in out.calls] == meant(shape)
    assert out.calls[0]["id"] == "x"
    assert not evidence.empty


@pytest.mark.parametrize("shape", CLEAN)
def test_a_clean_call_leaves_as_it_came(shape: str) -> None:
    evidence = Evidence()
    assert repair(stream(CLEAN[shape]), REQUEST, evidence=evidence) == stream(CLEAN[shape])
    assert evidence.empty


@pytest.mark.parametrize("indexes", [(None, None), (0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("ids", ["ab", ["", ""]])
def test_calls_of_a_message_keep_the_index_that_they_have_or_have_not(
    indexes: tuple[int | None, int | None], ids: str
) -> None:
    called = [call(0, A, "bash", each) for each in ids]
    for element, index in zip(called, indexes, strict=True):
        element |= {"index": index}
        if index is None:
            del element["index"]
    message = {"role": "assistant", "content": None, "tool_calls": called}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "1", "choices": [choice]}).encode()
    evidence = Evidence()
    assert (
        repair_whole(body, DeclaredTools.of_request(REQUEST), RepairOptions(), evidence, NOW)
        == body
    )
    assert evidence.empty


@pytest.mark.parametrize("again", ["x", None, "", "y"])
@pytest.mark.parametrize("size", [2, 9, 99])
@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("other", [A, '{"command":"pwd"}'])
def test_a_head_that_comes_again_begins_a_call_if_arguments_follow(
    again: str | None, size: int, index: int | None, other: str
) -> None:
    def at_index(*fields: str | None) -> list[dict[str, Any]]:
        element = call(0, *fields)
        return [element if index == 0 else {k: v for k, v in element.items() if k != "index"}]

    def pieces(arguments: str) -> list[list[dict[str, Any]]]:
        return [at_index(arguments[at : at + size]) for at in range(0, len(arguments), size)]

    deltas = [at_index("", "bash", "x"), *pieces(A), at_index("", "bash", again), *pieces(other)]
    meant = [("bash", A), ("bash", other)]
    for finished in (True, False):
        given = repair(stream(deltas, finished=finished), REQUEST)
        calls = read(given).calls  # of a client that joins what has one index
        assert [(each["name"], each["arguments"]) for each in calls] == meant
        assert len({each["id"] for each in calls}) == 2
        for reply in (given, repair(given, REQUEST)):
            assembler = CallAssembler()
            for frame in split(reply):
                if frame.data and frame.data != b"[DONE]":
                    for element in elements(json.loads(frame.data)["choices"][0]["delta"]):
                        assembler.take(read_delta(element))
            assert [(each.name, each.arguments) for each in assembler.calls] == meant
    if again != "y":
        lone = repair(stream(deltas[: -len(pieces(other))]), REQUEST)
        assert [(each["name"], each["arguments"]) for each in read(lone).calls] == [("bash", A)]


def test_a_marker_in_the_arguments_stays_and_is_recorded() -> None:
    elements = [[call(0, "", "bash", "x")], [call(0, '{"command": ", <|tool_call_begin|> {"}')]]
    evidence = Evidence()
    assert repair(stream(elements), REQUEST, evidence=evidence) == stream(elements)
    assert evidence.lines() == ["left a call_begin in the arguments of a native call"]


@pytest.mark.parametrize("size", [0, 9, 30, 1000])
def test_a_tag_in_a_key_is_taken_out_however_much_its_delta_has_after_it(size: int) -> None:
    pieces = "{", '"command</arg_key>": "' + "l" * size, '"}'
    given = stream([[call(0, "", "bash", "x")], *([call(0, piece)] for piece in pieces)])
    (out,) = read(repair(given, REQUEST)).calls
    assert out["arguments"] == "".join(pieces).replace("</arg_key>", "")


@pytest.mark.parametrize(
    ("arguments", "noted"),
    [
        ('{"command": "a</arg_key>", "timeout": 5}', ["half a tag"]),
        ('{"command": "say \\"command</arg_key>\\": x"}', []),
        ('{"other</arg_key>": "ls"}', []),
        ('{"command": "ls", "command</arg_key>": "pwd"}', []),
        ('{"command": "ls</arg_value"}', ["half a tag"]),
        ('{"command": "<b>ls</b>"}', []),
    ],
)
def test_a_tag_in_arguments_of_which_nothing_is_certain_stays(
    arguments: str, noted: list[str]
) -> None:
    for pieces in ([arguments], [arguments[:20], arguments[20:]]):
        given = stream([[call(0, "", "bash", "x")], *([call(0, piece)] for piece in pieces)])
        evidence = Evidence()
        assert repair(given, REQUEST, evidence=evidence) == given
        if len(pieces) == 1:
            wanted = [f"left {what} in the arguments of a native call" for what in noted]
            assert evidence.lines() == wanted


@pytest.mark.parametrize("name", ["mcp__fi", "mcp__files__read"])
def test_a_name_of_which_no_more_comes_is_sent_as_it_is(name: str) -> None:
    for finished in (True, False):
        out = read(repair(stream(cut(name), finished=finished), REQUEST))
        assert [each["name"] for each in out.calls] == [name]
    out = read(repair(stream([*cut(name), [call(0, B)]]), REQUEST))
    assert [(each["name"], each["arguments"]) for each in out.calls] == [(name, B)]


@pytest.mark.parametrize(
    "shape",
    ["a token after the name", "its last tags missing", "functions.bash:0", "bash</tool_call>"],
)
def test_names_of_whole_replies_are_read_as_well(shape: str) -> None:
    element = {**DEFECTS[shape][0][0]}
    del element["index"]
    arguments = "{}" if "missing" in shape else A
    element["function"] = element["function"] | {"arguments": arguments}
    message = {"role": "assistant", "content": None, "tool_calls": [element]}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    tools = DeclaredTools.of_request(REQUEST)
    out = json.loads(
        repair_whole(json.dumps(body).encode(), tools, RepairOptions(), Evidence(), NOW)
    )
    ((said,),) = [choice["message"]["tool_calls"] for choice in out["choices"]]
    assert (said["function"]["name"], json.loads(said["function"]["arguments"])) == (
        "bash",
        json.loads(A),
    )
