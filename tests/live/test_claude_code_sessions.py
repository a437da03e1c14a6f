"""Sessions of Claude Code at a chat-only host that refuses what Moonshot's does: parallel calls
with an image, a PDF and a failure, tools that are loaded, a sub-agent, plan mode, a second prompt
(``-c``)."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.claude_code import TEA, Claude, newest
from tests.live.strict_host import refusal_of
from tests.live.test_claude_code_bridge import ANSWER, talks_to, written
from tests.live.test_repeated_calls import k2

Json = dict[str, Any]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj
trailer<</Size 4/Root 1 0 R>>
%%EOF
"""
SUB_TASK = "Do the small task."
_numbers = itertools.count()

pytestmark = pytest.mark.heavy


def calls(*named: tuple[str, Json]) -> list[Json]:
    """A turn that thinks and makes these calls."""
    made = []
    for index, (name, arguments) in enumerate(named):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"{name}:{next(_numbers)}", "type": "function"}
        made.append({"tool_calls": [call | {"function": function}]})
    return [{"reasoning_content": f"Thought {next(_numbers)}."}, *made]


def bash(command: str) -> tuple[str, Json]:
    return "Bash", {"command": command, "description": "Runs it"}


def turns(claude: Claude) -> list[list[Json]]:
    folder = claude.folder / "work"
    reads = [("Read", {"file_path": str(folder / name)}) for name in ("a.png", "a.pdf")]
    task = {"description": "Small", "prompt": SUB_TASK, "subagent_type": "general-purpose"}
    return [
        calls(bash("sleep 1; echo slow"), *reads, bash("exit 3")),
        calls(("ToolSearch", {"query": "select:CronList", "max_results": 5})),
        calls(("CronList", {})),
        calls(("ToolSearch", {"query": "select:mcp__tea__brew", "max_results": 5})),
        calls(("Agent", task)),
        calls(bash("echo two")),
    ]


class Host:
    """Gives these turns, and one call in the sub-agent; refuses as Moonshot does, or otherwise."""

    def __init__(self, claude: Claude, refuses: Callable[[Json], str] = refusal_of) -> None:
        self.main, self.agent = turns(claude), [calls(bash("echo sub"))]
        self.refuses, self.refused = refuses, list[str]()
        talks_to(claude, self.reply)

    def reply(self, request: Request) -> Reply:
        body = request.json
        if refusal := self.refuses(body):
            self.refused.append(refusal)
            error = json.dumps({"error": {"message": refusal}}).encode()
            return Reply(error, "application/json", 400)
        left = self.agent if is_agents(body) else self.main
        made = sum("tool_calls" in message for message in body["messages"])
        deltas: Sequence[Json] = left[made] if made < len(left) and body.get("tools") else ANSWER
        return written(deltas, "stop", stream=bool(body.get("stream")))


def is_agents(body: Json) -> bool:
    return SUB_TASK in json.dumps([m for m in body["messages"] if m["role"] == "user"][:1])


def begun_alike(claude: Claude) -> list[Json]:
    """The chat requests of the main agent, each of which must begin as the one before."""
    sent = [request.json for request in claude.requests if "/chat/" in request.path]
    main = [body for body in sent if not is_agents(body)]
    for before, after in itertools.pairwise(main):
        assert json.dumps(after["messages"]).startswith(json.dumps(before["messages"])[:-1])
    return main


def test_each_request_begins_as_the_one_before_and_none_is_refused(claude: Claude) -> None:
    (claude.folder / "work" / "a.png").write_bytes(PNG)
    (claude.folder / "work" / "a.pdf").write_bytes(PDF)
    host = Host(claude)
    assert claude.answer(*TEA) == "All is well."
    assert host.refused == []
    main = begun_alike(claude)
    assert len(main) > len(host.main)
    assert "DeferredToolPlaceholder" not in json.dumps(main[-1]["tools"])
    outputs = [each["content"] for each in main[1]["messages"] if each["role"] == "tool"]
    slow, image, _, failed = outputs[:4]
    assert slow == "slow"
    assert image == "[image follows]"
    assert failed.startswith("Error: Exit code 3")
    assert "[document: " in json.dumps(main[1]["messages"])  # beside its result, from the older one
    pictures = [each for each in main[1]["messages"] if isinstance(each["content"], list)]
    assert [part["type"] for part in pictures[-1]["content"]][:2] == ["text", "image_url"]


@newest  # the older one leaves out documents when it reads its session again
def test_a_second_prompt_continues_the_first_conversation(claude: Claude) -> None:
    host = Host(claude)
    host.main = [calls(("ToolSearch", {"query": "select:CronList"})), calls(bash("echo one"))]
    for arguments in ((), ("-c",)):
        assert claude.answer(*arguments) == "All is well."
    assert host.refused == []
    assert len(begun_alike(claude)) == 4


@newest
@pytest.mark.parametrize("leaks", [False, True])
def test_a_plan_is_made_refused_and_carried_out(claude: Claude, *, leaks: bool) -> None:
    """The tool that ends plan mode is only named, as those of servers are."""
    host, done = Host(claude), {"plan": "1. Say it."}
    ends = [{"content": k2("ExitPlanMode", json.dumps(done))}]
    host.main = [
        calls(bash("echo early >> ran")),
        ends if leaks else calls(("ExitPlanMode", done)),
        calls(("ExitPlanMode", {"plan": "2. Say it twice."})),
        calls(bash("echo it >> ran")),
    ]
    said, asked = claude.plan({"behavior": "deny", "message": "Say it twice."})
    assert said == "All is well."
    assert asked == ["ExitPlanMode", "ExitPlanMode", "Bash"]
    assert claude.ran == ["it"]
    assert host.refused == []
    outputs = [m["content"] for m in begun_alike(claude)[-1]["messages"] if m["role"] == "tool"]
    assert outputs[0].startswith("Error: ")
    assert "Say it twice." in outputs[1]
    assert outputs[2].startswith("User has approved")


def small(body: Json) -> str:
    """What a host of a small model without thoughts and images refuses, in words of vLLM, Groq and
    DeepSeek."""
    if "reasoning_effort" in body:
        return "`reasoning_effort` is not supported with this model"
    if (most := body["max_tokens"]) > 16384:
        return f"max_tokens: {most} > 16384, which is the maximum allowed number of output tokens"
    if "image_url" in json.dumps(body["messages"]):
        return "messages[5]: unknown variant `image_url`, expected `text` at line 1 column 6290571"
    return ""


@newest
def test_what_a_host_does_not_take_is_left_out_once_and_for_all(claude: Claude) -> None:
    (claude.folder / "work" / "a.png").write_bytes(PNG)
    host = Host(claude, small)
    picture = calls(("Read", {"file_path": str(claude.folder / "work" / "a.png")}))
    host.main = [picture, calls(bash("echo one >> ran")), calls(bash("echo two >> ran"))]
    assert claude.answer(model="some-model") == "All is well."
    assert claude.ran == ["one", "two"]
    assert len(host.refused) == len({*host.refused}) == 3
