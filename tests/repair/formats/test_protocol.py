"""What the protocol of a leak format allows, shown by one that no model writes.

Its markers begin with no ``<``; the name of a tool stands in the call, its arguments are no
JSON, and it says of a text what it is.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict, deque

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Damaged, Drop, Dropped, Header, ParseEvent, Text, Whole
from dragoman.repair.formats.formats_by_family import ALL, NAMES, FormatChoice
from dragoman.repair.formats.kimi_k2 import KIMI_K2
from dragoman.repair.formats.marker_set import marker_set
from dragoman.repair.formats.protocol import LeakFormat
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import Frame, split
from tests.repair.streams import NOW, chunk, read, repair, scanner_of, sse
from tests.repair.test_scanner import BASH, SECTION, gist
from tests.repair.turns import REQUEST

MARKERS = marker_set(("[[call]]", "[[think]]", "[[end]]"))


class ToyParser:
    """``name=bash;command=ls`` up to ``[[end]]``, or thoughts."""

    def __init__(self, begins: str, start: int) -> None:
        self._thinks = begins == "[[think]]"
        self._offset = start
        self._name: str | None = None
        self._key = ""
        self._ended = self._is_over = False
        self._events: deque[ParseEvent] = deque()
        self._value = ""
        self.rest = ""

    @property
    def over(self) -> bool:
        return self._is_over and not self._events

    @property
    def in_call(self) -> bool:
        return not (self._thinks or self._is_over)

    @property
    def in_header(self) -> bool:
        return self.in_call and self._name is None

    @property
    def unread(self) -> str:
        return self.rest

    @property
    def holds(self) -> bool:
        return self._name is not None

    whole = too_long = False

    def take_more(self, text: str) -> bool:
        if self._thinks or not self._key or self.rest or "[" in text:
            return False
        self._read(text)
        return True

    def push(self, text: str) -> None:
        self.rest += text

    def end(self, *, whole: bool = True) -> None:  # noqa: ARG002
        self._ended = True

    def put_back(self, text: Text) -> None:
        self.rest = text.text + self.rest

    def next(self) -> ParseEvent | None:
        if not self._events and not self._is_over:
            self._step()
        return self._events.popleft() if self._events else None

    def _read(self, text: str) -> None:
        self._offset += len(text)
        self._value += text

    def _step(self) -> None:
        if not self._thinks and not self._key:
            head = re.match(r"name=(\w+);(\w+)=", self.rest)
            if head:
                self.rest = self.rest[head.end() :]
                self._offset += head.end()
                self._name, self._key = head[1], head[2]
                self._events.append(Header(head[1], head[0], "", "toy"))
                return
        marker = MARKERS.find(self.rest)
        end = marker.start() if marker else len(self.rest)
        end -= 0 if marker or self._ended else MARKERS.unfinished(self.rest)
        said, self.rest = self.rest[:end], self.rest[end:]
        if self._thinks and said:
            self._events.append(Text(said, self._offset, kind="reasoning"))
            self._offset += len(said)
        elif self._key and said:
            self._read(said)
        elif said:
            self.rest = said + self.rest
            return
        if marker or self._ended:
            self._is_over = True
            self._offset += len(marker[0]) if marker else 0
            self.rest = self.rest[len(marker[0]) :] if marker else ""
            if not self._thinks:
                value = json.dumps({self._key: self._value}, separators=(",", ":"))
                self._events.append(Whole([value]) if marker else Damaged("toy", cut=True))
            else:
                self._events.append(Dropped(Drop.HEADER))


TOY = LeakFormat(
    "toy",
    ("[[",),
    MARKERS,
    lambda match, _header, start, _: ToyParser(match.name, start),
    openers=("[[call]]", "[[think]]"),
)
CHOICE = FormatChoice((KIMI_K2, TOY))
BOTH = CHOICE.looked_for("")
DSML_LS = '<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>'
CALL = '[[call]]name=bash;command=echo "<x>" [b][[end]]'
ANY = " ".join(name for name in NAMES if name != "claude")
ALL_BUT_JSON = ANY.replace(" json", "")
MEANT = '[bash {"command":"echo \\"<x>\\" [b]"}]'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"a {CALL} b", f"a {MEANT} b"),
        (f"a {CALL}{SECTION}{CALL}", f"a {MEANT}{BASH}{MEANT}"),
        (f"a [[ {SECTION} [[calls]]", f"a [[ {BASH} [[calls]]"),
        (f"`{CALL}` {CALL}", f"`{CALL}` {MEANT}"),
        (f"[[call]]name=rm;all=x[[end]] {SECTION}", f"[[call]]name=rm;all=x[[end]] {BASH}"),
        ("[[think]]so [it] is[[end]]yes[[end]]", "so [it] isyes"),
    ],
    ids=["a call", "of both formats", "neither", "in code", "undeclared", "thoughts"],
)
def test_several_formats_are_read_in_one_text_however_it_is_cut(text: str, wanted: str) -> None:
    for size in (len(text), 1, 2, 3, 7):
        scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", BOTH)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        events = [event for piece in pieces for event in scanner.feed(piece)] + scanner.close()
        assert gist(events) == wanted


def test_a_stream_gets_the_arguments_that_a_format_makes_of_its_text() -> None:
    words = ["a", ' "b"', " c", " \\", " d", " [", "e", " <|", " f", ' "g" ', " h"] * 3
    texts = ["Now ", "[[call]]name=ba", "sh;comm", "and=", *words, "[[e", "nd]]", " Done."]
    stream = sse([*(chunk({"content": text}) for text in texts), chunk({}, "stop")])
    repair = ChatRepair(
        DeclaredTools.of_request(REQUEST), RepairOptions(formats=CHOICE), Evidence(), NOW
    )
    frames: list[Frame] = [out for frame in split(stream) for out in repair.feed(frame)]
    out = read(b"".join(frame.raw for frame in [*frames, *repair.close()]))
    assert out.content == "Now  Done."
    assert [json.loads(call["arguments"]) for call in out.calls] == [{"command": "".join(words)}]
    assert out.finish == ["tool_calls"]


@pytest.mark.parametrize("call", ["", CALL])
def test_after_a_call_text_goes_where_its_format_says(call: str) -> None:
    texts = [f"{call}[[think]]I ", "see.[[end]]", "Yes."]
    stream = sse([*(chunk({"content": text}) for text in texts), chunk({}, "stop")])
    repair = ChatRepair(
        DeclaredTools.of_request(REQUEST), RepairOptions(formats=CHOICE), Evidence(), NOW
    )
    frames = [out for frame in split(stream) for out in repair.feed(frame)]
    out = read(b"".join(frame.raw for frame in [*frames, *repair.close()]))
    if call:
        assert (out.reasoning, out.content, len(out.calls)) == ("I see.", "Yes.", 1)
    else:  # of a format that is not the model's own nothing is taken out
        assert (out.reasoning, out.content, out.calls) == ("", "".join(texts), [])


def test_of_two_markers_the_first_counts() -> None:
    for text, name in ((f"[[call]]{SECTION}", "[[call]]"), (f"{SECTION}[[call]]", "section_begin")):
        found = BOTH.find(f"a {text}")
        assert found is not None
        assert (found.name, found.start) == (name, 2)
    likenesses = defaultdict[object, int](int)
    assert ALL.find("<|tool_ <|tool_", likenesses=likenesses) is None
    assert {*likenesses.values()} == {2}, "each beginning that is none counts once"
    ends = itertools.chain(("[", "[[ca"), ("<", "<|tool_c"))
    assert [BOTH.unfinished(f"a {end}") for end in ends] == [1, 4, 1, 8]


@pytest.mark.parametrize(
    ("words", "asked", "replied", "names"),
    [
        ("auto", "moonshotai/Kimi-K3", "", ALL_BUT_JSON),
        ("auto", "Qwen/Qwen2.5-Coder-32B", "", ANY),
        ("auto", "openai/gpt-5.5", "", "kimi_k2 kimi_k3"),
        ("auto", "z-ai/glm-5.2:free", "router/auto", ALL_BUT_JSON),
        ("auto", "openai/gpt-oss-120b", "", ALL_BUT_JSON),
        (
            "auto",
            "gpt-5.5",
            "MiniMaxAI/MiniMax-M2",
            "kimi_k2 kimi_k3 minimax_m2 minimax_m3 minimax_text tool_calls",
        ),
        ("auto", "my-model", "claude-opus-5", "kimi_k2 kimi_k3 claude"),
        ("auto", "my-model", "", ANY),
        ("auto", "meta/llama-4", "kimi-k3", ANY),
        ("all", "kimi-k3", "", " ".join(NAMES)),
        ("mistral, DSML", "kimi-k3", "glm-5", "dsml mistral"),
    ],
)
def test_the_formats_that_are_looked_for(words: str, asked: str, replied: str, names: str) -> None:
    choice = FormatChoice.of(words)
    assert choice is not None
    search = choice.looked_for(asked, replied)
    assert list(dict.fromkeys(each.name for each in search)) == names.split()
    assert choice.looked_for(asked, replied) is search


@pytest.mark.parametrize("words", ["", "auto,all", "kimi", "kimi_k2,", "kimi_k2 dsml"])
def test_what_names_no_formats_is_no_choice(words: str) -> None:
    assert FormatChoice.of(words) is None


@pytest.mark.parametrize(
    ("asked", "replied", "called"),
    [("gpt-5", None, 0), ("gpt-5", "deepseek-v4", 1), ("gpt-5", "x", 0), ("glm-5", None, 1)],
)
def test_the_model_that_a_reply_names_adds_formats(
    asked: str, replied: str | None, called: int
) -> None:
    leak = f'<｜DSML｜invoke name="bash">{DSML_LS}</｜DSML｜invoke>'
    named = {"model": replied} if replied else {}
    chunks = [chunk({"role": "assistant"}), *(chunk({"content": text}) for text in leak)]
    stream = sse([{**each, "model": ""} | named for each in [*chunks, chunk({}, "stop")]])
    out = read(repaired := repair(stream, REQUEST | {"model": asked}))
    assert len(out.calls) == called
    assert called or repaired == stream
