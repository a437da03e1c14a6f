"""Generated turns: what a model meant, how Kimi writes it, and how hosts cut it.

A turn is a list of parts whose meaning is known; `written` is what leaks; the tests
compare what comes out of repair with the turn it was generated from.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from dragoman.repair.markdown import MarkdownCode

TOOLS = {
    "bash": {"command": {"type": "string"}},
    "mcp.files.read": {"path": {"type": "string"}},
    "get-weather": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "finish": {},
}
REQUEST = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(properties),
                    "additionalProperties": False,
                },
            },
        }
        for name, properties in TOOLS.items()
    ]
}
QUOTED = [
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>functions.bash:1<|tool_call_argument_begin|>",
]


@dataclass(frozen=True)
class Call:
    """A call the model meant."""

    name: str
    arguments: str
    header: str


@dataclass(frozen=True)
class Turn:
    """Text, then at most one section, then text: what the client must get."""

    before: str
    calls: tuple[Call, ...]
    after: str
    space: str
    bare: bool

    @property
    def written(self) -> str:
        """The turn as Kimi writes it."""
        s = self.space
        calls = "".join(
            f"<|tool_call_begin|>{s}{call.header}{s}<|tool_call_argument_begin|>{s}"
            f"{call.arguments}{s}<|tool_call_end|>{s}"
            for call in self.calls
        )
        if not calls:
            return self.before + self.after
        if self.bare:
            return f"{self.before}{calls}{self.after}"
        return (
            f"{self.before}<|tool_calls_section_begin|>{s}{calls}"
            f"<|tool_calls_section_end|>{self.after}"
        )


def _headers(name: str, arguments: str) -> list[str]:
    forms = [f"functions.{name}:3", f"{name}:0", name]
    forms += [f"functions_{name}_3", f"functions({name}):2.0", f"functions.{name}30"]
    forms += [f"functions.{name.replace('-', '_')}:7"]
    if arguments:
        forms += ["3", "call_abc123", "call00003", "0a1b2c3d-0000-4000-8000-0123456789ab"]
    return forms


# Text that is near to markers without being one.
texts = st.text(alphabet=st.sampled_from('ab <|>_:\n"{}é😀')) | st.sampled_from(
    ["a < b", "<|im_start|>", "<|tool_call", "x <", "<|", "<think>", "Let me look."]
)
strings = st.text(max_size=12) | st.builds("".join, st.lists(st.sampled_from([*QUOTED, "x", '"'])))


@st.composite
def _calls(draw: st.DrawFn) -> Call:
    name = draw(st.sampled_from(sorted(TOOLS)))
    value: dict[str, Any] = {
        key: draw(strings) if schema["type"] == "string" else draw(st.integers())
        for key, schema in TOOLS[name].items()
    }
    arguments = json.dumps(
        value, ensure_ascii=draw(st.booleans()), indent=draw(st.none() | st.just(1))
    )
    # A marker that JSON escapes is none; one that stays as it is must be followed as quoted.
    header = draw(st.sampled_from(_headers(name, arguments)))
    return Call(name, arguments, header)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """A turn with up to three calls."""
    calls = tuple(draw(st.lists(_calls(), max_size=3)))
    before, after = draw(texts), draw(texts)
    if '"' in before and after.lstrip().startswith('"'):
        after = f". {after}"  # else the calls are quoted
    code = MarkdownCode()
    code.feed(before)
    quotation = code.quotation()
    before += "\n" if quotation and quotation.by_lines else ""
    return Turn(
        before=before,
        calls=calls,
        after=after,
        space=draw(st.sampled_from(["", " ", "\n", " \n "])),
        bare=draw(st.booleans()),
    )


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    """`text`, cut anywhere."""
    points = draw(st.lists(st.integers(0, len(text)), max_size=len(text)))
    edges = [0, *sorted(points), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]
