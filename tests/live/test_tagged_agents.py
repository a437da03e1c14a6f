"""Calls between tags that leak to agents: to Codex, bridged onto chat, and to opencode, on chat.

A run has four turns: a call in small pieces, one in one piece, one that is damaged and mended, and
a damaged one that is text, and so the answer.  Another run has a call in each of some rare shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.test_codex import Codex, codex
from tests.live.test_opencode import Opencode, finish, opencode, texts
from tests.repair.formats.test_tagged_call import WRITERS, text_of
from tests.repair.streams import chunk, sse

__all__ = ["codex", "opencode"]
pytestmark = pytest.mark.heavy

TOOLS = {"exec_command": ("cmd", "yield_time_ms"), "bash": ("command", "timeout")}
"""Each agent's tool for commands, with its arguments for a command and a number."""
RAN = ["in pieces", "in one", "mended"]
MODELS = {"glm": "glm-5.2", "qwen": "qwen3-coder", "dsml": "deepseek-v4"}
MENDED = {
    "glm": ("<arg_value>", ""),
    "qwen": (r"<parameter=(\w+)>", r'<parameter name="\1">'),
    "dsml": ('string="true"', 'string="false"'),
}
"""By format, what is replaced in a call whose meaning stays certain."""
RARE = {
    "muse": (
        '<atem:function_calls>\n<atem:invoke name="{tool}">\n'
        '<atem:parameter name="{command}">{said}'
        "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>"
    ),
    "composer": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>\n{tool}\n<｜tool▁sep｜>{command}\n{said}\n"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "minicpm": '<function name="{tool}"><param name="{command}">{said}</param></function>',
    "longcat": (
        '<longcat_tool_call>{{"name": "{tool}", "arguments": {{"{command}": "{said}"}}}}'
        "</longcat_tool_call>"
    ),
    "no format": (
        "<use>\n<name>{tool}</name>\n<input>\n<{command}>{said}</{command}>\n</input>\n</use>"
    ),
}
"""Calls in rare formats, and in a shape that no format has."""
CLOSED = "(</(arg_value|parameter|｜DSML｜parameter)>)"


def call(leak: str, tool: str, said: str) -> str:
    """A call as its model writes it."""
    command, wait = TOOLS[tool]
    arguments = {command: f"echo {said} | tee -a ran", wait: 9000}
    return text_of(WRITERS[leak](tool, arguments, "\n"))


def answer(leak: str, tool: str) -> str:
    """A call that is text: a word stands between its arguments."""
    return re.sub(CLOSED, r"\1 and", call(leak, tool, "nothing"), count=1)


def turns(leak: str, tool: str) -> Callable[[Request], Reply]:
    """What the host replies to a request, by the number of outputs in it."""
    mended = re.sub(*MENDED[leak], call(leak, tool, "mended"), count=1)
    said = [call(leak, tool, "in pieces"), call(leak, tool, "in one"), mended, answer(leak, tool)]

    def reply(request: Request) -> Reply:
        turn = sum(message["role"] == "tool" for message in request.json["messages"])
        size = len(said[turn]) if RAN[turn : turn + 1] == ["in one"] else 3
        pieces = [said[turn][at : at + size] for at in range(0, len(said[turn]), size)]
        chunks = [*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")]
        return Reply(sse([each | {"model": MODELS[leak]} for each in chunks]))

    return reply


def rare_turns(tool: str) -> Callable[[Request], Reply]:
    """What the host replies: a call in each rare shape, and then the answer."""
    said = [
        f"I look.\n\n{shape}".format(
            tool=tool, command=TOOLS[tool][0], said=f"echo {name} | tee -a ran"
        )
        for name, shape in RARE.items()
    ]

    def reply(request: Request) -> Reply:
        text = [*said, "So it is."][
            sum(each["role"] == "tool" for each in request.json["messages"])
        ]
        pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
        chunks = [*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")]
        return Reply(sse([each | {"model": "my-model"} for each in chunks]))

    return reply


def test_codex_runs_calls_in_rare_shapes(codex: Codex) -> None:
    codex.upstream.replies["tags_rare"] = rare_turns("exec_command")
    items = codex.turn("tags_rare", like=None, model="my-model")
    assert (codex.work / "ran").read_text().splitlines() == list(RARE)
    told = [item["text"].strip() for item in items if "text" in item]
    assert told == [*["I look."] * len(RARE), "So it is."]
    codex.proxy.wait_for_log("unknown, shape unknown")


@pytest.mark.parametrize("opencode", ["chat"], indirect=True)
def test_opencode_runs_calls_in_rare_shapes(opencode: Opencode) -> None:
    opencode.upstream.replies["tags_rare"] = rare_turns("bash")
    events = finish(opencode.start("tags_rare", model="my-model"), 60)
    assert (opencode.folder / "ran").read_text().splitlines() == list(RARE)
    told = [text.strip() for text in texts(events)]
    assert told == [*["I look."] * len(RARE), "So it is."]
    opencode.proxy.wait_for_log("unknown, shape unknown")


@pytest.mark.parametrize("leak", MODELS)
def test_codex_runs_each_call_once_and_shows_the_text(codex: Codex, leak: str) -> None:
    codex.upstream.replies[f"tags_{leak}"] = turns(leak, "exec_command")
    items = codex.turn(f"tags_{leak}", like=None, model=MODELS[leak])
    assert (codex.work / "ran").read_text().splitlines() == RAN
    assert [item["text"] for item in items if "text" in item] == [answer(leak, "exec_command")]
    assert len(codex.arrived(f"tags_{leak}")) == 4
    codex.proxy.wait_for_log("damaged call of exec_command")


@pytest.mark.parametrize("opencode", ["chat"], indirect=True)
@pytest.mark.parametrize("leak", MODELS)
def test_opencode_runs_each_call_once_and_shows_the_text(opencode: Opencode, leak: str) -> None:
    opencode.upstream.replies[f"tags_{leak}"] = turns(leak, "bash")
    events = finish(opencode.start(f"tags_{leak}", model=MODELS[leak]), 60)
    assert (opencode.folder / "ran").read_text().splitlines() == RAN
    assert texts(events) == [answer(leak, "bash")]
    assert opencode.requests(f"tags_{leak}") == 4
    opencode.proxy.wait_for_log("damaged call of bash")
