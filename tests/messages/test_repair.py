"""What leaks in replies of the Messages API, and what is not touched."""

from __future__ import annotations

import gc
import itertools
import json
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import stage_for, tools_of
from dragoman.messages.heartbeats import PING
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.wire.reply_bounds import MAX_HELD
from dragoman.wire.sse import Frame, split
from fixtures.regenerate import expected
from tests.bridge.messages_streams import (
    BASH,
    K2,
    REQUEST,
    Block,
    Json,
    document,
    event,
    events,
    pieces,
    read,
    repaired,
    stream,
)
from tests.repair.streams import read as read_chat
from tests.responses.test_native_formats import ALONE, leaking, request, said_in

LS = '[bash {"command": "ls -la"}]'
NATIVE = ("tool_use", ("bash", ['{"command":', '"ls -la"}']))
OTHER = ("tool_use", ("bash", ['{"command":"pwd"}']))
TEXT = ("text", pieces("All is well.\n"))
THOUGHT = ("thinking", pieces("Let me see: <b> <| [TOOL"))
TEXTS = ("text", "thinking")
Events = list[Json]


def piecewise(body: bytes, size: int, asked: Json = REQUEST) -> bytes:
    """What leaves of a stream that comes in pieces of this size."""
    evidence = Evidence()
    stage = stage_for(tools_of(asked, "messages"), RepairOptions(), evidence, 7)
    pipeline = RepairPipeline(stage, evidence)
    sent = [pipeline.feed(body[at : at + size]) for at in range(0, len(body), size)]
    return b"".join([*sent, pipeline.close()])


# What is not touched

SHAPES: dict[str, list[Block]] = {
    "text": [TEXT],
    "thoughts, text": [THOUGHT, TEXT],
    "calls": [THOUGHT, TEXT, NATIVE, OTHER],
    "the same call twice": [NATIVE, NATIVE],
    "none": [],
    "an empty text": [("text", [""])],
    "blank text, then a call": [("text", ["\n\n"]), NATIVE],
    "thoughts alone": [("thinking", ["Hm."])],
    "blocks of the host's": [
        ("redacted_thinking", {"data": "x"}),
        ("server_tool_use", {"id": "s1", "name": "web_search", "input": {"query": "x"}}),
        ("web_search_tool_result", {"tool_use_id": "s1", "content": []}),
        TEXT,
    ],
    "quoted calls": [("text", pieces(f"So:\n```\n{K2}\n```\nand <invoke name=x>, <function=ls>"))],
    "a call of no tool": [("text", pieces(K2.replace("bash", "rm").replace("<|tool_c", "<| c")))],
}


def with_each(change: Callable[[Json], Json | None]) -> Callable[[Events], Events]:
    return lambda given: [new for each in given if (new := change(dict(each))) is not None]


def indexed(index_of: Callable[[int], int]) -> Callable[[Events], Events]:
    def change(each: Json) -> Json:
        return each | {"index": index_of(each["index"])} if "index" in each else each

    return with_each(change)


def without(kind: str) -> Callable[[Events], Events]:
    return with_each(lambda each: None if each["type"] == kind else each)


def inserted(*more: Json, at: int = 1) -> Callable[[Events], Events]:
    return lambda given: [*given[:at], *more, *given[at:]]


def ending(reason: object) -> Callable[[Events], Events]:
    def change(each: Json) -> Json:
        return (
            each | {"delta": {"stop_reason": reason}} if each["type"] == "message_delta" else each
        )

    return with_each(change)


ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
ODDITIES: dict[str, Callable[[Events], Events]] = {
    "none": lambda given: given,
    "gaps": indexed(lambda index: 2 * index + 1),
    "one index": indexed(lambda _: 0),
    "no ends of blocks": without("content_block_stop"),
    "no start": without("message_start"),
    "two starts": lambda given: [given[0], *given],
    "no message_delta": without("message_delta"),
    "no end": lambda given: given[:-2],
    "unknown events": inserted({"type": "new_event", "x": 1}, {"type": "ping"}, at=2),
    "an error": lambda given: [*given[:4], ERROR],
    "an error alone": lambda _: [ERROR],
    "refusal": ending("refusal"),
    "pause_turn": ending("pause_turn"),
    "null": ending(None),
    "no usage": with_each(lambda each: {k: v for k, v in each.items() if k != "usage"}),
}
FRAMINGS: dict[str, Callable[[bytes], bytes]] = {
    "no names": lambda body: re.sub(rb"event: .*\n", b"", body),
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "comments": lambda body: body.replace(b"\n\n", b"\n\n: wait\n\n"),
    "DONE": lambda body: body + b"data: [DONE]\n\n",
    "no blank line at the end": lambda body: body[:-2],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("oddity", [*ODDITIES, *FRAMINGS])
def test_without_a_leak_the_very_bytes_leave(shape: str, oddity: str) -> None:
    given = ODDITIES.get(oddity, ODDITIES["none"])(events(SHAPES[shape], model="claude-opus-5"))
    body = FRAMINGS.get(oddity, bytes)(b"".join(map(event, given)))
    for size in (1, 7, 64, len(body) or 1):
        got = piecewise(body, size)
        if (shape, oddity) == ("quoted calls", "no end"):  # in what may begin a call
            (block,) = read(got, broken=True).blocks
            assert block["text"] == f"So:\n```\n{K2}\n```\nand <invoke name=x>, "
        else:
            assert got == body


@pytest.mark.parametrize(
    "said",
    [f"Before.\n{K2.replace('bash', 'rm')}\nAfter.", f"```\n{K2}\n```", "<tool_call> <invoke> <"],
)
def test_a_message_that_comes_whole_is_the_same_then(said: str) -> None:
    asked = REQUEST | {"model": "my-model"}
    for blocks in ([THOUGHT, ("text", [said]), NATIVE], [("thinking", [said])], []):
        body = json.dumps(document(blocks) | {"model": "my-model"}).encode()
        assert repaired(body, asked) == body


def test_a_request_that_wants_no_calls_gets_none() -> None:
    body = stream([("text", pieces(K2))])
    assert repaired(body, REQUEST | {"tool_choice": {"type": "none"}}) == body


# Where a call leaks

PLACES: dict[str, tuple[list[Block], str]] = {
    "alone": ([("text", ["{}"])], "{}"),
    "in a text": ([("text", ["I look.\n{}\nDone."])], "I look. {} Done."),
    "in thoughts": ([("thinking", ["Hm.\n{}\nSo."]), TEXT], "/Hm./ {} /So./ All is well."),
    "at the end of thoughts": ([("thinking", ["Hm.\n{}"]), TEXT], "/Hm./ {} All is well."),
    "in both": ([("thinking", ["Hm. {}"]), ("text", ["So. {}"])], "/Hm./ {} So. {}"),
    "after a call": ([OTHER, ("text", ["{}"])], '[bash {"command":"pwd"}] {}'),
    "before a call": ([("text", ["Now. {}"]), OTHER], 'Now. {} [bash {"command":"pwd"}]'),
    "between blank texts": ([("text", ["\n\n"]), ("text", ["\n{}"]), ("text", [" \n"])], "{}"),
    "after a block of the host's": (
        [("redacted_thinking", {"data": "x"}), ("text", ["So. {}"])],
        "(redacted_thinking) So. {}",
    ),
}


def leaked(place: str, leak: str, size: int) -> list[Block]:
    return [
        (kind, pieces("".join(said).replace("{}", leak), size) if kind in TEXTS else said)
        for kind, said in PLACES[place][0]
    ]


@pytest.mark.parametrize("place", PLACES)
def test_a_call_becomes_a_block_where_it_leaked(place: str) -> None:
    wanted, answers = PLACES[place][1].replace("{}", LS), set[bytes]()
    for size in (1, 2, 3, 5, 8, 13, 500):
        got = read(repaired(stream(leaked(place, K2, size))))
        assert (" ".join(got.gist.split()), got.stop_reason) == (wanted, "tool_use")
        answers.add(json.dumps(got.blocks).encode())
    assert len(answers) == 1
    whole = json.loads(repaired(json.dumps(document(leaked(place, K2, 500))).encode()))
    assert whole["stop_reason"] == "tool_use"
    for block in whole["content"]:
        if block["type"] == "tool_use":
            assert isinstance(block["input"], dict)
            block["input"] = json.dumps(block["input"])
    shown = [{k: v for k, v in block.items() if k != "signature"} for block in whole["content"]]
    streamed = [{k: v for k, v in block.items() if k != "signature"} for block in got.blocks]
    assert str(shown).replace(": ", ":") == str(streamed).replace(": ", ":")


@pytest.mark.parametrize("turn", [turn for turn in ALONE if turn != "thoughts"])
def test_json_alone_is_a_call_if_its_block_is_the_whole_answer(turn: str) -> None:
    kinds = {"reasoning": "thinking", "call": "tool_use"}
    for size in (1, 3, 500):
        blocks: list[Block] = [
            OTHER if kind == "call" else (kinds.get(kind, kind), pieces(text, size))
            for kind, text in ALONE[turn][0]
        ]
        natives, asked = blocks.count(OTHER), REQUEST | {"model": "qwen3"}
        body = stream(blocks, "tool_use" if natives else "end_turn", "qwen3")
        got = read(out := repaired(body, asked))
        assert [block["type"] for block in got.blocks].count("tool_use") - natives == ALONE[turn][1]
        assert (out == body) is (ALONE[turn][1] == 0)
        whole = json.dumps(document(blocks) | {"model": "qwen3"}).encode()
        sent = json.loads(repaired(whole, asked))["content"]
        assert [block["type"] for block in sent].count("tool_use") - natives == ALONE[turn][1]


@pytest.mark.parametrize("folder", leaking(), ids=lambda folder: folder.name)
def test_the_calls_are_those_that_chat_clients_get(folder: Any) -> None:
    given = request(folder)
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"].get("parameters", {})}
        for tool in given.get("tools", [])
    ]
    asked = REQUEST | {"model": given["model"], "tools": tools}
    said = said_in((folder / "upstream.sse").read_bytes())
    wanted = read_chat(expected(folder))
    blocks = [({"reasoning": "thinking"}.get(kind, kind), texts) for kind, texts in said]
    got = read(repaired(stream(blocks, model=str(given["model"])), asked))
    calls = [block for block in got.blocks if block["type"] == "tool_use"]
    assert [(block["name"], block["input"]) for block in calls] == [
        (call["name"], call["arguments"] or "{}") for call in wanted.calls
    ]
    shown = "".join(block.get("text") or block.get("thinking") or "" for block in got.blocks)
    assert "".join(shown.split()) == "".join(wanted.text.split())


def test_a_name_of_claudes_says_nothing_of_the_model_and_its_own_format_is_read() -> None:
    invoked = 'court\n<invoke name="bash"><parameter name="command">ls -la'
    invoked += "<" + "/parameter></invoke>"
    for name, leak in itertools.product(("claude-opus-5", "kimi-k2.5", "x"), (K2, invoked)):
        got = read(
            repaired(stream([("text", pieces(leak))], model=name), REQUEST | {"model": name})
        )
        assert got.gist.replace('":"', '": "') == LS
    got_none = stream([("text", [K2])], model="gpt-5.5")
    assert repaired(got_none, REQUEST | {"model": "gpt-5.5"}) == got_none


# A call that is sent twice


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        ([("text", ["So. ", K2]), NATIVE], f"So. {LS}"),
        ([NATIVE, ("text", ["So. ", K2])], '[bash {"command":"ls -la"}] So.'),
        ([("text", [K2]), OTHER], f'{LS} [bash {{"command":"pwd"}}]'),
        ([OTHER, ("text", [K2])], f'[bash {{"command":"pwd"}}] {LS}'),
        ([("text", [K2]), NATIVE, NATIVE], f'{LS} [bash {{"command":"ls -la"}}]'),
        ([("text", [K2, K2]), NATIVE, TEXT, NATIVE], f"{LS} {LS} All is well."),
    ],
)
def test_a_call_in_a_text_and_as_a_block_is_one(blocks: list[Block], wanted: str) -> None:
    for size in (1, 500):
        cut_up: list[Block] = [
            (kind, pieces("".join(said), size) if kind == "text" else said) for kind, said in blocks
        ]
        evidence = Evidence()
        got = read(repaired(stream(cut_up), evidence=evidence))
        assert (got.gist, got.stop_reason) == (wanted, "tool_use")
        assert any("came twice" in line for line in evidence.lines()) is ("pwd" not in wanted)


# Ends


def test_a_cut_call_is_never_one_that_runs() -> None:
    for end in range(K2.index("bash"), K2.index("}") + 1):
        out = repaired(stream([("text", pieces("So. " + K2[:end]))], "max_tokens"))
        got = read(out)
        assert got.stop_reason == "max_tokens"
        assert out.count(b"event: content_block_stop\n") == 1
        for block in got.blocks[1:]:
            with pytest.raises(ValueError):
                json.loads(block["input"])


def test_a_block_begins_with_its_first_word_after_a_text_that_was_long_in_doubt() -> None:
    for size in (1, 500):
        said: list[Block] = [("text", pieces(f"> {K2}", size)), ("text", pieces(K2, size))]
        got = read(repaired(stream(said, model="x"), REQUEST | {"model": "x"}))
        assert [block["type"] for block in got.blocks] == ["text", "tool_use"]


@pytest.mark.slow
def test_a_break_in_a_call_leaves_it_open_and_before_it_leaves_the_text() -> None:
    body = stream([("text", pieces("So. " + K2))])
    for end in range(0, len(body), 7):
        stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
        pipeline = RepairPipeline(stage, Evidence())
        out = pipeline.feed(body[:end]) + pipeline.break_off("gone")
        assert pipeline.broken or b"message_stop" in body[:end]
        if b"tool_use" in out and b"message_delta" not in body[:end]:
            got = read(out, broken=True)
            assert got.stop_reason is None


def test_an_error_passes_after_what_was_held() -> None:
    given = events([("text", pieces("So. " + K2))])
    for count in range(2, len(given) - 2):
        body = b"".join(map(event, [*given[:count], ERROR]))
        out = repaired(body)
        got = read(out, broken=True)
        assert out.endswith(event(ERROR)) and got.others == ["error"]
        assert got.stop_reason is None and b"message_delta" not in out
        texts = [block["text"] for block in got.blocks if block["type"] == "text"]
        assert texts in ([], [""], ["So"], ["So. "], ["So. <"])


def test_an_error_does_not_wait_for_the_first_word_of_a_block() -> None:
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
    pipeline = RepairPipeline(stage, Evidence(), breaks=False)
    given = events([("text", ["So."])])[:2]
    out = pipeline.feed(b"".join(map(event, given))) + pipeline.break_off("gone")
    types = [json.loads(frame.data or b"")["type"] for frame in split(out)]
    assert types == ["message_start", "content_block_start", "error"]


@pytest.mark.parametrize(
    ("stop", "finish", "wanted"),
    [
        ("end_turn", "tool_calls", "tool_use"),
        ("stop_sequence", "tool_calls", "tool_use"),
        ("pause_turn", "tool_calls", "tool_use"),
        ("max_tokens", "tool_calls", "max_tokens"),
        ("refusal", "tool_calls", "refusal"),
        ("end_turn", "keep", "end_turn"),
    ],
)
def test_the_stop_reason_after_a_call(stop: str, finish: str, wanted: str) -> None:
    body = stream([("text", [K2])], stop)
    out = repaired(body, finish=finish)
    assert json.loads(list(split(out))[-2].data or b"")["delta"]["stop_reason"] == wanted


def test_a_stop_reason_that_never_comes_is_added() -> None:
    given = [each for each in events([("text", [K2])]) if each["type"] != "message_delta"]
    got = read(repaired(b"".join(map(event, given))))
    assert (got.gist, got.stop_reason) == (LS, "tool_use")


# Blocks of a repaired message


def test_thoughts_that_were_changed_lose_their_signature_and_others_keep_it() -> None:
    got = read(repaired(stream([THOUGHT, ("thinking", [f"Hm. {K2}"]), THOUGHT])))
    signed = [block.get("signature") for block in got.blocks if block["type"] == "thinking"]
    assert signed == ["c2ln", "", "c2ln"]


def test_a_call_of_the_hosts_keeps_an_input_that_came_with_its_beginning() -> None:
    given = events([("text", [K2]), OTHER, ("tool_use", ("bash", []))])
    for each in given:
        if each["type"] == "content_block_start" and each["index"] == 1:
            each["content_block"]["input"] = {"command": "who"}
    body = b"".join(event(each) for each in given if b"pwd" not in event(each))
    assert read(repaired(body)).gist == f'{LS} [bash {{"command":"who"}}] [bash {{}}]'


def test_a_name_of_a_call_of_the_hosts_loses_its_markup() -> None:
    for name in ("functions.bash:0", "bash<|tool_call_argument_begin|>", "<tool_call>bash"):
        for before in ([TEXT], [THOUGHT, ("text", ["\n"])], []):
            given: list[Block] = [*before, ("tool_use", (name, NATIVE[1][1])), TEXT]
            got = read(repaired(stream(given, "tool_use")))
            clean = read(stream([*before[:1], NATIVE, TEXT], "tool_use"))
            assert [{**block, "id": ""} for block in got.blocks] == [
                {**block, "id": ""} for block in clean.blocks
            ]


@pytest.mark.parametrize("oddity", ["gaps", "one index", "no ends of blocks", "unknown events"])
@pytest.mark.parametrize("place", PLACES)
def test_a_repaired_message_is_in_order_whatever_the_hosts_was(oddity: str, place: str) -> None:
    given = ODDITIES[oddity](events(leaked(place, K2, 5)))
    if oddity == "gaps":  # what has left as it came has them
        given = [given[0], *given[1:]]
    out = repaired(b"".join(event(each) for each in given))
    if place in ("alone", "in a text", "at the end of thoughts") and oddity != "gaps":
        kept = [frame for frame in split(out) if b"new_event" not in frame.raw]
        wanted = " ".join(PLACES[place][1].replace("{}", LS).split())
        assert " ".join(read(b"".join(f.raw for f in kept)).gist.split()) == wanted


def test_ids_of_calls_are_new_in_the_conversation() -> None:
    said = [{"type": "tool_use", "id": "toolu_7_1", "name": "bash", "input": {}}]
    history = [*REQUEST["messages"], {"role": "assistant", "content": said}]
    got = read(repaired(stream([("text", [K2, K2])]), REQUEST | {"messages": history}))
    assert [block["id"] for block in got.blocks] == ["toolu_7_2", "toolu_7_3"]


# Waiting


def test_nothing_waits_but_what_may_be_a_call() -> None:
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
    came, left = [], []
    for each in events([("thinking", ["Hm", "."]), ("text", ["\n", "So", " <", "b>", "."]), OTHER]):
        frame = Frame(event(each))
        came.append(frame.raw)
        left.append([sent.raw for sent in stage.feed(frame)])
    counts = [len(sent) for sent in left]
    # A block waits for its first word, and a marker's beginning for what follows.
    assert counts == [1, 0, 2, 1, 1, 1, 0, 0, 3, 0, 2, 1, 1, 1, 1, 1, 1, 1]
    assert [raw for sent in left for raw in sent] == came


def test_a_heartbeat_is_a_ping_after_the_first_event() -> None:
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
    pipeline = RepairPipeline(stage, Evidence())
    assert pipeline.heartbeat() == b""
    first, *rest = [event(each) for each in events([TEXT])]
    pipeline.feed(first)
    assert pipeline.heartbeat() == PING.raw == b'event: ping\ndata: {"type":"ping"}\n\n'
    pipeline.feed(b"".join(rest))
    assert pipeline.heartbeat() == b""


def test_a_reply_that_cannot_break_off_ends_with_an_error_of_this_api() -> None:
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
    pipeline = RepairPipeline(stage, Evidence(), breaks=False)
    body = stream([("text", [*K2.partition(" -la")])])
    out = pipeline.feed(body[: body.index(b" -la")]) + pipeline.break_off("gone")
    last = json.loads(list(split(out))[-1].data or b"")
    assert last == {"type": "error", "error": {"type": "api_error", "message": "gone"}}


@pytest.mark.slow
def test_a_call_that_is_held_for_long_is_text_or_a_call_all_the_same() -> None:
    head = "<tool_call>\n<function=bash>\n<parameter=command>\n"
    asked = REQUEST | {"model": "qwen3-coder"}
    end = "\n<" + "/parameter>\n</function>\n</tool_call>"
    for tail, stop, wanted in ((end, "end_turn", True), ("", "max_tokens", False)):
        said = [head, *["x"] * (MAX_HELD + 10), tail]
        got = read(repaired(stream([("text", said)], stop, "qwen3-coder"), asked))
        assert (got.blocks[-1]["type"] == "tool_use") is wanted
        assert "x" * (MAX_HELD + 10) in json.dumps(got.blocks)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b'{"type": "message"}', b'{"type": "message", "content": [1, "x", {}]}'],
)
def test_what_is_no_message_passes(body: bytes) -> None:
    assert repaired(body) == body


def test_a_tool_without_a_schema_is_anthropics_own() -> None:
    tools = tools_of(
        REQUEST | {"tools": [BASH, {"type": "web_search_20250305", "name": "w"}]}, "messages"
    )
    assert list(tools.declared.names) == ["bash"]


def test_an_answer_that_is_to_be_json_is_no_call() -> None:
    said = json.dumps({"name": "bash", "arguments": {"command": "ls -la"}})
    body = stream([("text", pieces(said))], model="x")
    form = {"output_config": {"format": {"type": "json_schema", "schema": {}}}}
    assert read(repaired(body, REQUEST | {"model": "x"})).gist == LS
    assert repaired(body, REQUEST | {"model": "x"} | form) == body


BLOCKS = events([("text", ["Well. "])] * 500)[1:-2]


@pytest.mark.slow
@pytest.mark.parametrize("many", [BLOCKS, BLOCKS[1:2] * 1500], ids=["blocks", "one text"])
def test_what_has_no_end_needs_no_memory(many: list[Json]) -> None:
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
    pipeline = RepairPipeline(stage, Evidence())
    data = b"".join(map(event, many))
    for _ in range(2):
        pipeline.feed(data)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(4):
            pipeline.feed(data)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 2 * len(data), "of four times that"
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_frames_that_say_nothing_wait_up_to_a_limit() -> None:
    blank = [("text", ["\n"] * 2_000)]
    assert repaired(stream(blank)) == stream(blank)
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
    starts = [each for each in events([("text", [])] * 200) if each["type"].endswith("block_start")]
    assert sum(len(stage.feed(Frame(event(each)))) for each in starts) > 100
    half = events([("text", ["So. <|tool_calls_section_be"])])
    pings = event({"type": "ping"}) * (2 * MAX_HELD + 10)
    for said in ([], [half[2] | {"delta": {"type": "text_delta", "text": K2}}]):
        stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), Evidence(), 7)
        pipeline = RepairPipeline(stage, Evidence())
        came = b"".join(map(event, [*half[:2], *said, half[2]])) + pings
        sent = pipeline.feed(came)
        assert sent.count(b"event: ping") > MAX_HELD
        assert said or sent == came


# What a request declares beside its functions

REMINDER = (
    "The following deferred tools are now available via ToolSearch. Load them:\n"
    "CronList\nmcp__tea__brew\n\nThat is all."
)
NAMED: Json = {
    **REQUEST,
    "messages": [*REQUEST["messages"], {"role": "system", "content": REMINDER}],
}
CLIENT: Json = {**REQUEST, "tools": [{"type": "bash_20250124", "name": "bash"}]}
BREW = '<tool_call>\n{"name": "mcp__tea__brew", "arguments": {"minutes": 3}}\n</tool_call>'


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("asked", "leak", "call"),
    [
        (NAMED, BREW, '[mcp__tea__brew {"minutes": 3}]'),
        (REQUEST, BREW, None),
        (CLIENT, K2, '[bash {"command": "ls -la"}]'),
        (NAMED, '<tool_call>\n{"arguments": {"minutes": 3}}\n</tool_call>', None),
    ],
    ids=["named", "not named", "of the client's", "arguments alone"],
)
def test_what_the_client_runs_is_called(
    asked: Json, leak: str, call: str | None, size: int
) -> None:
    body = stream([("text", [f"I look.\n{leak}"])])
    gist = read(piecewise(body, size, asked)).gist
    assert gist == (f"I look. {call}" if call else gist)
    assert ("[" in gist) == bool(call)
    whole = repaired(json.dumps(document([("text", [f"I look.\n{leak}"])])).encode(), asked)
    assert (b'"tool_use"' in whole) == bool(call)


LONG = "input length exceeds the context length"


@pytest.mark.parametrize("blocks", [[], [TEXT], [("text", [K2]), TEXT]], ids=["", "text", "leak"])
def test_an_overflow_has_the_words_that_clients_know(blocks: list[Block]) -> None:
    def failing(message: str) -> bytes:
        error = {"type": "invalid_request_error", "message": message, "x": 1}
        return stream(blocks).partition(b"event: message_delta")[0] + event(
            {"type": "error", "error": error, "request_id": "r"}
        )

    said = failing(LONG)
    wanted = f"prompt is too long ({LONG})"
    for size in (1, 9, 10_000):
        sent = piecewise(said, size)
        last = [frame.json for frame in split(sent)][-1]
        assert last["error"] == {"type": "invalid_request_error", "message": wanted, "x": 1}
        assert last["request_id"] == "r"
    other = failing("Overloaded")
    assert [*split(piecewise(other, 9))][-1].json["error"]["message"] == "Overloaded"


def test_an_overflow_in_a_whole_reply() -> None:
    body = json.dumps({"type": "error", "error": {"type": "api_error", "message": LONG}}).encode()
    assert json.loads(repaired(body))["error"]["message"] == f"prompt is too long ({LONG})"
    body = body.replace(LONG.encode(), b"Overloaded")
    assert repaired(body) == body


def test_a_tag_in_the_key_of_a_native_call_is_taken_out_however_it_is_cut() -> None:
    arguments = '{"command</arg_key>": "a <b> c"}'
    for at in range(1, len(arguments)):
        blocks: list[Block] = [("tool_use", ("bash", [arguments[:at], arguments[at:]]))]
        assert read(repaired(stream(blocks, "tool_use"))).gist == '[bash {"command": "a <b> c"}]'
