"""Generated turns: said in chat chunks in any of the ways of hosts, heard as they were meant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.responses.dialects import DIALECTS, Dialect
from dragoman.responses.envelope import open_sealed

from .grammar import CALLS
from .replying import USAGE, call, calls, chunk, run, run_body, run_bytes, sse

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda word: not word.isspace() and "<" not in word
)
json_objects = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=3,
    ),
    max_size=3,
)
FUNCTIONS = ["echo", "weather", "mcp__files__read", "apply", "tool_search", "shell"]


@dataclass(frozen=True)
class Called:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Meant:
    """A turn as the model meant it, and how its upstream ends it."""

    reasoning: str
    text: str
    called: tuple[Called, ...]
    finish: str


@st.composite
def called(draw: st.DrawFn) -> Called:
    name = draw(st.sampled_from(FUNCTIONS))
    if name == "apply":
        return Called(name, {"input": draw(st.text(max_size=12))})
    if name == "shell":
        return Called(name, {"commands": draw(st.lists(words, max_size=2))})
    return Called(name, draw(json_objects))


meanings = st.builds(
    Meant,
    reasoning=words | st.just(""),
    text=words | st.just(""),
    called=st.lists(called(), max_size=4).map(tuple),
    finish=st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces, some of them empty."""
    edges = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *edges], [*edges, len(text)], strict=True)]


@dataclass(frozen=True)
class Manner:
    """How a host says its calls."""

    index: str
    ids: str
    repeat: bool
    mixed: bool


manners = st.builds(
    Manner,
    index=st.sampled_from(["right", "missing", "zero", "from one"]),
    ids=st.sampled_from(["call_", "functions.", "none"]),
    repeat=st.booleans(),
    mixed=st.booleans(),
)


def say_call(
    draw: st.DrawFn, number: int, made: Called, manner: Manner, *, cut_short: bool
) -> list[dict[str, Any]]:
    """The deltas of one call; in a turn that was cut short "" would be no arguments yet."""
    arguments = json.dumps(made.arguments, ensure_ascii=draw(st.booleans()))
    pieces = cut(draw, arguments)
    if draw(st.booleans()):
        pieces.insert(0, "")
    if draw(st.booleans()) and made.arguments == {} and not cut_short:
        pieces = [""]
    index = {"right": number, "missing": None, "zero": 0, "from one": number + 1}[manner.index]
    call_id = None if manner.ids == "none" else f"{manner.ids}{number}"
    deltas = []
    for at, piece in enumerate(pieces):
        head = at == 0 or manner.repeat
        deltas.append(
            call(index, piece, name=made.name if head else None, call_id=call_id if head else None)
        )
    return deltas


@st.composite
def said(draw: st.DrawFn) -> tuple[Meant, list[Any], bool]:
    """A turn, the chunks that say it, and whether ``[DONE]`` follows."""
    meant, manner = draw(meanings), draw(manners)
    field = draw(st.sampled_from(["reasoning_content", "reasoning", "both", "think"]))
    values: list[Any] = [chunk({"role": "assistant", "content": ""})]
    content = meant.text
    if field == "think" and meant.reasoning:
        content = f"<think>{meant.reasoning}</think>{meant.text}"
    else:
        for piece in cut(draw, meant.reasoning):
            names = ["reasoning_content", "reasoning"] if field == "both" else [field]
            values.append(chunk(dict.fromkeys(names, piece)))
    values += [chunk({"content": piece}) for piece in cut(draw, content)]
    values += say_calls(draw, meant, manner)
    values.append(chunk(finish=meant.finish))
    usage_at = draw(st.sampled_from(["last", "choice", "finish"]))
    if usage_at == "choice":
        values[-1]["choices"][0]["usage"] = USAGE
    elif usage_at == "finish":
        values[-1]["usage"] = USAGE
    else:
        values.append(chunk(usage=USAGE) | {"choices": []})
    return meant, values, draw(st.booleans())


def say_calls(draw: st.DrawFn, meant: Meant, manner: Manner) -> list[Any]:
    """The chunks of all calls: one after another, mixed, or several deltas in a chunk."""
    cut_short = meant.finish in STATUS
    by_call = [
        say_call(draw, at, made, manner, cut_short=cut_short)
        for at, made in enumerate(meant.called)
    ]
    if manner.mixed and manner.index in ("right", "from one") and manner.ids != "none":
        deltas, queues = [], [list(queue) for queue in by_call if queue]
        heads = [queue.pop(0) for queue in queues]
        while queues := [queue for queue in queues if queue]:
            deltas.append(draw(st.sampled_from(queues)).pop(0))
        deltas = heads + deltas
    else:
        deltas = [delta for queue in by_call for delta in queue]
    if deltas and draw(st.booleans()):
        return [calls(*deltas)]
    return [calls(delta) for delta in deltas]


def unambiguous(meant: Meant, values: list[Any]) -> bool:
    """Not even a person could tell apart calls of one function that have neither an index
    nor an id of their own, and no arguments that end."""
    elements = [
        element
        for value in values
        for choice in value["choices"]
        for element in choice["delta"].get("tool_calls", [])
    ]
    by_index = all("index" in element for element in elements)
    counted = len({element.get("index") for element in elements}) == len(meant.called)
    if by_index and counted:
        return True
    names = [made.name for made in meant.called]
    pairs = pairwise(names)
    return all(a != b for a, b in pairs) and all(
        element.get("function", {}).get("arguments") is not None for element in elements
    )


def heard(output: list[dict[str, Any]]) -> tuple[str, str, list[Called]]:
    """What a client makes of the output."""
    reasoning, text, made = "", "", []
    for item in output:
        function = item.get("function", item)
        match item["type"]:
            case "reasoning":
                reasoning += open_sealed(item["encrypted_content"]) or ""
            case "message":
                text += "".join(part["text"] for part in item["content"])
            case "function_call" | "tool_call":
                space = f"{item['namespace']}__" if "namespace" in item else ""
                name = space + function["name"]
                made.append(Called(name, json.loads(function["arguments"])))
            case "custom_tool_call":
                made.append(Called(item["name"], {"input": item["input"]}))
            case "tool_search_call":
                made.append(Called("tool_search", item["arguments"]))
            case "shell_call":
                made.append(Called("shell", {"commands": item["action"]["commands"]}))
    return reasoning, text, made


STATUS = {"length": "incomplete", "content_filter": "incomplete"}
every_dialect = st.sampled_from(list(DIALECTS.values()))


@given(said(), every_dialect)
def test_a_generated_turn_is_heard_as_it_was_meant(
    turn_: tuple[Meant, list[Any], bool], dialect: Dialect
) -> None:
    meant, values, done = turn_
    if not unambiguous(meant, values):
        return
    got = run(values, dialect, done=done)
    reasoning, text, made = heard(got.output)
    assert reasoning == meant.reasoning.lstrip() or reasoning == meant.reasoning
    assert text == meant.text.lstrip() or text == meant.text
    assert made == list(meant.called)
    waiting = dialect.required_action and meant.called
    status = STATUS.get(meant.finish, "incomplete" if waiting else "completed")
    assert got.response["status"] == status
    assert got.response["usage"]["total_tokens"] == 18


@given(said(), every_dialect, st.lists(st.integers(0, 5000), max_size=8))
def test_the_cut_of_the_bytes_changes_no_byte(
    turn_: tuple[Meant, list[Any], bool], dialect: Dialect, places: list[int]
) -> None:
    _, values, done = turn_
    data = sse(values, done=done)
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert run_bytes(pieces, dialect).frames == run_bytes([data], dialect).frames


@given(meanings, every_dialect)
def test_a_generated_turn_is_the_same_streamed_and_not(meant: Meant, dialect: Dialect) -> None:
    elements = [
        call(None, json.dumps(made.arguments), name=made.name, call_id=f"c{at}")
        for at, made in enumerate(meant.called)
    ]
    message = {"reasoning_content": meant.reasoning, "content": meant.text, "tool_calls": elements}
    choice = {"index": 0, "message": message, "finish_reason": meant.finish}
    whole = run_body({"choices": [choice], "usage": USAGE}, dialect)
    values = [chunk({name: value}) for name, value in message.items() if name != "tool_calls"]
    values += [calls(element) for element in elements]
    streamed = run([*values, chunk(finish=meant.finish, usage=USAGE)], dialect)
    assert whole.response == streamed.response
    assert sum(item["type"] in CALLS for item in whole.output) == len(meant.called)
