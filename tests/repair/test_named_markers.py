"""Documentation of the formats: its markers, and calls in its tables and comments, are text."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.repair.formats.test_all_formats import CALLS, MEANT
from tests.repair.test_call_finder import MODELS, read_by

MARKERS = {
    "kimi-k2.6": [
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ],
    "kimi-k3": [
        "<|open|>think<|sep|>",
        "<|close|>think<|sep|>",
        "<|open|>response<|sep|>",
        "<|open|>tools<|sep|>",
        "<|close|>tools<|sep|>",
        "<|end_of_msg|>",
    ],
    "deepseek-v4": ["<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", "</｜DSML｜invoke>"],
    "deepseek-r1": ["<｜tool▁calls▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
    "qwen3-coder": ["<tool_call>", "</tool_call>", "<function=NAME>", "</function>"],
    "glm-5": ["<tool_call>", "</tool_call>", "<arg_key>", "</arg_value>"],
    "minimax-m2": ["<minimax:tool_call>", "</minimax:tool_call>", "</invoke>", "</parameter>"],
    "gpt-oss-20b": ["<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>"],
    "mistral-large": ["[TOOL_CALLS]", "[ARGS]"],
    "google/gemma-4-31b-it": ["<|tool_call>", "<tool_call|>"],
    "llama-3.3-70b": ["<|python_tag|>", "<|python_start|>", "<|python_end|>"],
    "granite-4": ["<|tool_call|>", "<function_call>"],
    "olmo-3": ["<function_calls>", "</function_calls>"],
    "LiquidAI/LFM2.5-8B": ["<|tool_call_start|>", "<|tool_call_end|>"],
    "a-model": ["<tool_call>", "<function_calls>", "<|tool_calls_section_begin|>", "</invoke>"],
}
OTHERS = sorted({each for few in MARKERS.values() for each in few if "=" not in each})
HEADERS = [
    "<|start|>assistant<|channel|>final<|message|>",
    "<|channel|>analysis<|message|>",
    "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>",
]
SENTENCES = [
    "A call begins with {0} and ends with {1}.",
    "The model writes {0}, then a name, then {1}, and stops.",
    "The two tokens {0} {1} stand for nothing but themselves.",
    "All of a turn's calls are between {0} and {1}; the host parses them.",
    "What {0} means is not documented, but {1} is.",
    "The parser looks for {0} ({1} in old versions).",
    "If {0} is lost – hosts do that – {1} is what remains.",
    "Its special tokens are {0}, {1} and others.",
    "Read up to {1}",
    "Strip {0} {1} before you show the text!",
    "Why does **{0}** appear in the text, and not {1}?",
    "See vllm#1234: {0} … {1} reached the client.",
    "**{0}** begins a call, and **{1}** ends it.",
    '"{0}" stands before a call, "{1}" after it.',
    "标记 {0} 开始，{1} 结束。",
]
LINES = [
    "- the opening token: {0}",
    "* {0}: begins a call",
    "1. find {0} {1}",
    "| begin | {0} |",
    "| {0} | begins a call | {1} |",
    "> The markers {0} and {1} are special tokens.",
    "#### The role of {0} and {1}",
    "\n    {0}name{1}\n",
    "`{0}` and `{1}`",
    "<!-- {0} {1} -->",
]
BLOCKS = [
    "<!--\n{}\n-->",
    "<!-- {} -->",
    "<example><![CDATA[{}]]></example>",
    "\\begin{verbatim}\n{}\n\\end{verbatim}",
    "\\begin{lstlisting}\n{}\n\\end{lstlisting}",
    "[code]{}[/code]",
    "[code]\n{}\n[/code]",
]
ROWS = ["| call | {} |", "| format | shape |\n|---|---|\n| this | {} | as leaked |"]
WORDS = ["How calls are written", "The format is simple.", "That is all.", "It has two parts."]


def documentation(pick: random.Random, markers: list[str]) -> str:
    """Some paragraphs, lists and tables that name these markers."""
    parts: list[str] = []
    for _ in range(pick.randrange(2, 7)):
        names = pick.sample(markers, k=2)
        kind = pick.choice([SENTENCES, SENTENCES, LINES, WORDS])
        parts += [pick.choice(kind).format(*names), pick.choice(["\n", "\n\n", "\n\n"])]
    return "".join([*parts, pick.choice(WORDS)])


def at_cuts(model: str, text: str) -> set[str]:
    return {
        read_by(model, [text[at : at + size] for at in range(0, len(text), size)])
        for size in (len(text), 5)
    }


@pytest.mark.parametrize("model", MARKERS)
def test_a_marker_that_a_documentation_names_is_text(model: str) -> None:
    pick = random.Random(model)
    for _ in range(14):
        text = documentation(pick, MARKERS[model])
        assert at_cuts(model, text) == {text.replace(": ", ":")}


@pytest.mark.parametrize("other", OTHERS)
def test_a_marker_is_text_next_to_those_of_other_formats(other: str) -> None:
    for model in ("kimi-k2.6", "kimi-k3"):
        for marker in MARKERS[model]:
            for text in (
                f"Its tokens are {marker}, {other} and others.\n\nThat is all.",
                f"Its tokens are {other}, {marker} and others.\n\nThat is all.",
            ):
                assert at_cuts(model, text) == {text}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_whole_header_that_a_line_names_is_text(sentence: str) -> None:
    for headers in pairwise(HEADERS):
        text = sentence.format(*headers)
        assert at_cuts("gpt-oss-20b", text) == {text.replace(": ", ":")}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_a_block_or_a_row_that_quotes_is_text(name: str) -> None:
    call = CALLS[name].replace("¦", "")
    for shape in BLOCKS if "\n" in call else BLOCKS + ROWS:
        text = f"So:\n\n{shape.replace('{}', call)}\n\nThat is all."
        assert at_cuts(MODELS[name], text) == {text.replace(": ", ":")}
        real = f"{text}\n\n{call}"
        left = f"{text}\n\n{MEANT}"
        assert at_cuts(MODELS[name], real) == {left.replace(": ", ":")}
