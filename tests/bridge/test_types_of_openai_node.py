"""Every kind of event is one of openai-node's types, checked by TypeScript's own compiler."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.replying import USAGE, call, calls, chunk, ended, run, text
from tests.live.clients import SCRIPTS, need, node

pytestmark = pytest.mark.slow

TYPES = SCRIPTS / "node_modules" / "openai" / "resources" / "responses" / "responses"
COMPILER = SCRIPTS / "node_modules" / "typescript" / "lib" / "tsc.js"
OPTIONS = ("--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext")
LOGPROBS = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]}
CITATION = {
    "type": "url_citation",
    "url_citation": {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 1},
}
STRUCTURED = {
    "local_shell": {"command": ["ls"], "env": {}, "timeout_ms": 5},
    "shell": {"commands": ["ls"]},
    "apply_patch": {"type": "create_file", "path": "a", "diff": "+b"},
    "tool_search": {"query": "x"},
}
TURNS: dict[str, list[Any]] = {
    "text": [text("Hello"), text(" there"), *ended()],
    "reasoning": [chunk({"reasoning_content": "Hm."}), text("Yes."), *ended()],
    "refusal": [chunk({"refusal": "No."}), *ended()],
    "log probabilities": [chunk({"content": "a"}, choice={"logprobs": LOGPROBS}), *ended()],
    "citations": [text("a"), chunk({"annotations": [CITATION]}), *ended()],
    "calls": [
        calls(call(0, '{"a":', name="echo", call_id="c1")),
        calls(call(0, "1}")),
        calls(call(1, "{}", name="mcp__files__read", call_id="c2")),
        calls(call(2, '{"input": "x"}', name="apply", call_id="c3")),
        *ended("tool_calls"),
    ],
    "structured calls": [
        *(
            calls(call(index, json.dumps(arguments), name=name, call_id=f"c{index}"))
            for index, (name, arguments) in enumerate(STRUCTURED.items())
        ),
        *ended("tool_calls"),
    ],
    "a limit": [text("Half"), *ended("length")],
    "a call at a limit": [calls(call(0, '{"a":', name="echo", call_id="c")), *ended("length")],
    "a filter": [text("Half"), *ended("content_filter")],
    "a failure": [text("Half"), {"error": {"message": "overloaded", "code": 503}}],
    "a break": [calls(call(0, '{"a":', name="echo", call_id="c"))],
    "usage": [text("a"), *ended(usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 3}})],
}


MORE = {
    "response": {"presence_penalty", "frequency_penalty", "store"},
    "error": {"error"},
    "custom_tool_call": {"status"},
    "response.function_call_arguments.done": {"name"},
}
"""Members that the types do not have, and other clients or the Open Responses specification
want."""


ADDED = {"output_text": "", "access_programs": None}
"""Members of a response that the SDK itself adds, or that only OpenAI's own models have."""


def typed(value: Any) -> Any:
    """The value without what is more than the types say."""
    if isinstance(value, list):
        return [typed(member) for member in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("object") or value.get("type")
    more = MORE.get(str(kind), set()) | ({"usage"} if value.get("usage", 0) is None else set())
    if kind in ("response.output_text.delta", "response.output_text.done"):
        # The bytes of a token are of the part's type, and not of the event's.
        bare = [{k: v for k, v in each.items() if k != "bytes"} for each in value["logprobs"]]
        value = value | {"logprobs": bare}
    if kind == "response":
        value = value | ADDED
    return {name: typed(member) for name, member in value.items() if name not in more}


def compiled(*sources: Path) -> str:
    """What the compiler says about all of them."""
    command = [node(), COMPILER, *OPTIONS, *sources]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    return run.stdout + run.stderr


def test_every_event_is_of_the_types_of_openai_node(tmp_path: Path) -> None:
    need(COMPILER, "install npm, then `make test` sets up the Node clients")
    lines = [f'import type {{ ResponseStreamEvent }} from "{TYPES}.js";']
    kinds = set()
    for number, (name, turn) in enumerate(TURNS.items()):
        events = [typed(event) for event in run(turn, done="break" not in name).story.events]
        kinds |= {event["type"] for event in events}
        told = json.dumps(events, ensure_ascii=False, indent=1)
        lines.append(f"export const turn{number}: ResponseStreamEvent[] = {told};")
    assert {"response.completed", "response.failed", "response.incomplete", "error"} <= kinds
    good, bad = tmp_path / "events.mts", tmp_path / "other_events.mts"
    good.write_text("\n".join(lines))
    bad.write_text(good.read_text().replace('"type": "response.completed"', '"type": "done"'))
    found = compiled(good, bad)
    faults = [line for line in found.splitlines() if "error TS" in line]
    assert [line for line in faults if bad.name not in line] == [], found[:4000]
    assert faults, "an event that is none is seen"
