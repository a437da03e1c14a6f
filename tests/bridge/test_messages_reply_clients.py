"""Anthropic's own clients read bridged replies: anthropic-python by its strict types and its
helper, anthropic-node by its types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients import SCRIPTS, need

from .messaging import Run, run
from .replying import chunk, text
from .test_messages_reply import TABLE, THOUGHT
from .test_types_of_openai_node import COMPILER, compiled

TYPES = SCRIPTS / "node_modules" / "@anthropic-ai" / "sdk" / "resources" / "messages" / "messages"
WHOLE = [case for case in TABLE if case not in ("cut in a call", "broken arguments")]
"""Where every input is JSON."""


def whole(got: Run) -> bytes:
    return json.dumps(got.reply.response).encode()


@pytest.mark.parametrize("case", TABLE)
def test_the_stream_is_of_the_types_of_anthropic_python(case: str) -> None:
    pytest.importorskip("anthropic", reason="it cannot live beside mitmproxy 11")
    from .test_messages_anthropic_python import asked, client  # noqa: PLC0415

    got = run(TABLE[case][0])
    told = list(client(got.body).messages.create(**asked(), stream=True))
    assert [event.type for event in told] == [event["type"] for event in got.events]


@pytest.mark.parametrize("case", WHOLE)
def test_its_helper_puts_together_what_a_whole_message_has(case: str) -> None:
    pytest.importorskip("anthropic", reason="it cannot live beside mitmproxy 11")
    from .test_messages_anthropic_python import accumulated, asked, client  # noqa: PLC0415

    got = run(TABLE[case][0])
    streamed, message = accumulated(got.body), client(whole(got)).messages.create(**asked())
    for each in (streamed, message):
        told = [block.model_dump(exclude_none=True) for block in each.content]
        assert told == got.reply.response["content"]
        assert each.stop_reason == got.read.stop_reason
        assert each.usage.output_tokens == got.reply.response["usage"]["output_tokens"]
        assert each.usage.input_tokens == got.reply.response["usage"]["input_tokens"]


def test_an_error_in_the_stream_is_one_of_the_helpers() -> None:
    anthropic = pytest.importorskip("anthropic", reason="it cannot live beside mitmproxy 11")
    from .test_messages_anthropic_python import accumulated  # noqa: PLC0415

    got = run([text("Hel"), {"error": {"message": "The engine is overloaded", "code": 503}}])
    with pytest.raises(anthropic.APIStatusError, match="overloaded"):
        accumulated(got.body)


COUNTED = dict.fromkeys(("output_tokens_details", "server_tool_use"))
USAGE = dict.fromkeys(("cache_creation", "inference_geo", "service_tier", "speed"))
ENDED = dict.fromkeys(("container", "stop_details"))
BLOCKS = {"text": {"citations": None}, "tool_use": {"caller": {"type": "direct"}}}
"""Members that only Anthropic's own service has something for."""


def typed(event: dict[str, Any]) -> dict[str, Any]:
    """The event with all that the types have."""
    if event["type"] == "message_start":
        message = event["message"]
        usage = message["usage"] | COUNTED | USAGE
        return event | {"message": message | ENDED | {"diagnostics": None, "usage": usage}}
    if event["type"] == "message_delta":
        return event | {"delta": event["delta"] | ENDED, "usage": event["usage"] | COUNTED}
    if event["type"] == "content_block_start":
        block = event["content_block"]
        return event | {"content_block": block | BLOCKS.get(block["type"], {})}
    return event


def test_every_event_is_of_the_types_of_anthropic_node(tmp_path: Path) -> None:
    need(COMPILER, "install npm, then `make test` sets up the Node clients")
    lines = [f'import type {{ RawMessageStreamEvent }} from "{TYPES}.mjs";']
    turns: dict[str, list[Any]] = {name: turn for name, (turn, *_) in TABLE.items()}
    turns["a break"] = [THOUGHT, chunk({"content": "Hel"})]
    for number, (name, turn) in enumerate(turns.items()):
        got = run(turn, done=name != "a break")
        told = json.dumps([*map(typed, got.events)], indent=1)
        lines.append(f"export const turn{number}: RawMessageStreamEvent[] = {told};")
    good, bad = tmp_path / "events.mts", tmp_path / "other_events.mts"
    good.write_text("\n".join(lines))
    bad.write_text(good.read_text().replace('"type": "message_stop"', '"type": "done"'))
    found = compiled(good, bad)
    faults = [line for line in found.splitlines() if "error TS" in line]
    assert [line for line in faults if bad.name not in line] == [], found[:6000]
    assert faults, "an event that is none is seen"
