"""GLM's format as a table, and turns written in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.enclosed_json import HERMES
from dragoman.repair.formats.glm import GLM
from dragoman.repair.formats.qwen import QWEN
from tests.repair.formats.leaks import dropped
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, streamed, turns
from tests.repair.turns import cut

LS = "<arg_key>command</arg_key>\n<arg_value>ls</arg_value>"
BASH = f"<tool_call>bash\n{LS}\n<arg_key>timeout</arg_key>\n<arg_value>15</arg_value>\n</tool_call>"
MEANT = '[bash {"command":"ls","timeout":15}]'
SHORT = '[bash {"command":"ls"}]'
SHORTEST = f"<tool_call>bash{LS}</tool_call>".replace("\n", "")
TABLE = {
    "a call": (f"Look.\n{BASH}", f"Look.\n{MEANT}"),
    "several": (f"{BASH}\n{BASH}\nDone.", f"{MEANT * 2}\nDone."),
    "no line ends": (BASH.replace("\n", ""), MEANT),
    "closing tags alone in a value": (
        BASH.replace("ls", "a</arg_value>b</tool_call>c"),
        MEANT.replace("ls", "a</arg_value>b</tool_call>c"),
    ),
    "no end of a value": (BASH.replace("</arg_value>\n", ""), MEANT),
    "no end of a value, with a line end": (BASH.replace("</arg_value>", ""), MEANT),
    "no end of the call": (f"<tool_call>bash{LS}\n{BASH}", f"{SHORT}{MEANT}"),
    "a call that a value quotes": (
        BASH.replace("ls", f"a\n{SHORTEST} b"),
        MEANT.replace("ls", json.dumps(f"a\n{SHORTEST} b")[1:-1]),
    ),
    "no end of a value, nor of the call": (
        f"{SHORTEST.partition('</arg_value>')[0]}\n{BASH}",
        f"{SHORT}{MEANT}",
    ),
    "no end of a value before an argument that the tool has not": (
        SHORTEST.replace("</arg_value>", "<arg_key>x</arg_key><arg_value>1</arg_value>"),
        "=",
    ),
    "no arguments": ("<tool_call>finish</tool_call>.", "[finish {}]."),
    "no arguments, but their end": ("<tool_call>finish</arg_value>", "[finish {}]"),
    "the same, with all ends": ("<tool_call>finish</arg_value>\n</tool_call>.", "[finish {}]."),
    **{
        f"the same, and {half!r}": (f"<tool_call>finish</arg_value>{half}", f"[finish {{}}]{half}")
        for half in ("\n<", "\n<tool", "\n<arg_k")
    },
    "the same, and half an argument": ("<tool_call>finish</arg_value>\n<arg_key>a", "="),
    "an end before the arguments": (SHORTEST.replace("bash", "bash</arg_value>"), SHORT),
    "JSON": ('<tool_call>bash>{"command":"ls"}</tool_call>.', f"{SHORT}."),
    "JSON, blanks": ('<tool_call>\nbash\n{"command":"ls"}\n</tool_call>', SHORT),
    "nothing is trimmed": (
        "<tool_call>bash<arg_key>command</arg_key><arg_value>\n ls <a\n</arg_value></tool_call>",
        r'[bash {"command":"\n ls <a\n"}]',
    ),
    "cut off": (BASH.partition("s</arg")[0], "="),
    "no end after a value": (f"<tool_call>bash\n{LS}\n</tool", SHORT),
    "cut off in a key": (f"<tool_call>bash\n{LS}\n<arg_key>time", "="),
    "cut off in the name": ("<tool_call>bas", "="),
    "in code": (f"`<tool_call>bash` and\n```\n{BASH}\n```\n", "="),
    "in prose": ("Write <tool_call>bash and <arg_key>, or <tool_call> bash.", "="),
    "undeclared": (f"{BASH.replace('bash', 'rm')} x", "="),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str) -> None:
    assert read_at_any_cut(text, HERMES, QWEN, GLM) == (text if wanted == "=" else wanted)


def test_an_end_of_no_arguments_is_followed_by_half_a_tag() -> None:
    out = streamed(["<tool_call>finish</arg_value>\n<"], GLM)
    assert ([call["arguments"] for call in out.calls], out.finish) == (["{}"], ["tool_calls"])


def test_an_end_before_the_arguments_is_said_to_be_dropped() -> None:
    rest = f"{LS}</tool_call>"
    assert "stray argument_end" in dropped(GLM, f"<tool_call>bash</arg_value>{rest}")
    assert "stray argument_end" not in dropped(GLM, f"<tool_call>bash{rest}")


@given(st.data(), turns(), st.sampled_from(["", "\n"]))
def test_a_turn_is_read_back(data: st.DataObject, turn: Turn, line_end: str) -> None:
    text = turn.before
    for name, arguments in turn.calls:
        pairs = line_end.join(
            f"<arg_key>{key}</arg_key>{line_end}"
            f"<arg_value>{value if isinstance(value, str) else json.dumps(value)}</arg_value>"
            for key, value in arguments.items()
        )
        text += f"<tool_call>{name}{line_end}{pairs}{line_end}</tool_call>"
    assert_reads_back(turn, data.draw(cut(text + turn.after)), HERMES, QWEN, GLM)
