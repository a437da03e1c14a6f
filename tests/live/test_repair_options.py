"""The options of repair, and what it leaves in the log and on the flow."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from dragoman.bridge.host_requirements import family_of
from fixtures.server import Reply, Upstream
from tests.live.chat import CONTROLS, REQUEST, Chat
from tests.live.mitmdump import ADDON, Mitmdump, make_confdir
from tests.repair.streams import Read, chunk, read, sse

LEAK = (
    "before <|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    '<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|> after'
)
LEAKING = sse([chunk({"reasoning_content": LEAK}), chunk({}, "stop")])
WHOLE = json.dumps(
    {"choices": [{"index": 0, "message": {"reasoning_content": LEAK}, "finish_reason": "stop"}]}
).encode()
DEFAULTS = {
    "dragoman_repair": "auto",
    "dragoman_formats": "auto",
    "dragoman_kimi_text": "content",
    "dragoman_finish_reason": "tool_calls",
}


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    """A mitmdump whose options are the defaults when a test begins."""
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    chat = Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))
    assert chat.control("options", **DEFAULTS).status == 200
    return chat


def ask(chat: Chat, **options: str) -> Read:
    """What a client reads with these options set while mitmdump runs."""
    assert chat.control("options", **options).status == 200
    return read(chat.ask(LEAKING).body)


def names(result: Read) -> list[str]:
    return [call["name"] for call in result.calls]


@pytest.mark.parametrize(("option", "renamed"), [("!~ts json", True), ("off", False)])
def test_a_tool_is_sent_with_another_name_only_if_the_reply_gets_its_own_again(
    chat: Chat, option: str, renamed: bool
) -> None:
    """A filter may say something else once it sees the reply."""
    assert chat.control("options", dragoman_repair=option).status == 200
    for stream in (False, True):
        tools = [{"type": "function", "function": {"name": "fs.read"}}]
        request = {**REQUEST, "model": "kimi-k2.6", "tools": tools, "stream": stream}
        sent = family_of("kimi-k2.6").sent_tool_name("fs.read") if renamed else "fs.read"
        call = {"id": "a", "type": "function", "function": {"name": sent, "arguments": "{}"}}
        choice = {"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        reply = Reply(json.dumps({"choices": [choice]}).encode(), "application/json")
        (given,) = json.loads(chat.ask(reply, request=request).body)["choices"]
        assert given["message"]["tool_calls"][0]["function"]["name"] == "fs.read"
        body = json.loads(chat.upstream.requests[-1].body)
        assert body["tools"][0]["function"]["name"] == sent


@pytest.mark.parametrize(
    ("value", "repaired"),
    [
        ("off", False),
        ("auto", True),
        ("~d 127.0.0.1", True),
        ("~d moonshot.ai", False),
        ("~all", True),
        ("!~all", False),
        ("~u /made_up & ~m POST", True),
        ("~hq 'x-other: .*'", False),
        ("~ts event-stream", True),
        ("~c 200", True),
    ],
)
def test_dragoman_repair_chooses_flows(chat: Chat, value: str, repaired: bool) -> None:
    assert chat.control("options", dragoman_repair=value).status == 200
    reply = chat.ask(LEAKING)
    assert (reply.body == LEAKING) != repaired
    assert names(read(reply.body)) == (["bash"] if repaired else [])
    whole = chat.ask(Reply(WHOLE, "application/json"), request={})
    if value != "~ts event-stream":
        assert (b'"tool_calls"' in whole.body) == repaired


DSML = (
    '<｜DSML｜tool_calls><｜DSML｜invoke name="bash">'
    '<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>'
    "</｜DSML｜invoke></｜DSML｜tool_calls>"
)


def test_dragoman_formats_says_what_is_looked_for(chat: Chat) -> None:
    chunks = [chunk({"content": text}) for text in re.split(r"(?<=>)", DSML)]
    stream = sse([{**each, "model": "m"} for each in [*chunks, chunk({}, "stop")]])
    for formats, called in (("auto", ["bash"]), ("glm,dsml", ["bash"]), ("kimi_k2, qwen", [])):
        assert chat.control("options", dragoman_formats=formats).status == 200
        reply = chat.ask(stream, request=REQUEST | {"model": "m"})
        assert names(read(reply.body)) == called
        assert (reply.body == stream) == (not called)


class AnyPath(Upstream):
    """Leaks on every path."""

    def _reply(self, *_: object) -> Reply:
        return Reply(LEAKING)


def test_a_filter_also_reaches_other_paths(mitmdump: Callable[..., Mitmdump]) -> None:
    proxy = mitmdump("--set", "dragoman_repair=~u /answers")
    with AnyPath() as upstream:
        chat = Chat(upstream, proxy, reverse=False)
        assert names(read(chat.ask("any", path="/v1/answers").body)) == ["bash"]
        assert names(read(chat.ask("any", path="/v1/chat/completions").body)) == []


def test_a_stream_keeps_the_options_with_which_it_began(chat: Chat) -> None:
    got: list[bytes] = []
    chat.upstream.replies["running"] = Reply(LEAKING)
    cut = f";cut=at:{LEAKING.index(b'functions')};hold=1"
    running = Thread(target=lambda: got.append(chat.ask("running", cut).body))
    running.start()
    chat.proxy.wait_for_log("Streaming response")
    chat.control("options", dragoman_repair="off", dragoman_finish_reason="keep")
    chat.upstream.release("running")
    running.join()
    assert names(read(got[0])) == ["bash"]
    assert read(got[0]).finish == ["tool_calls"]
    assert chat.ask(LEAKING).body == LEAKING


def test_options_can_be_given_at_the_start(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    settings = ["dragoman_kimi_text=field", "dragoman_finish_reason=keep"]
    arguments = [word for setting in settings for word in ("--set", setting)]
    chat = Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}", *arguments))
    result = read(chat.ask(LEAKING).body)
    assert (result.reasoning.split(), result.finish) == (["before", "after"], ["stop"])


# Evidence

PRIVATE = ("sk-private", "private-query", "private-header", "private prompt", "private reply")


def test_the_evidence_of_a_repair_is_one_log_line_and_a_comment(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    make_confdir(tmp_path / "conf")
    arguments = "--mode", f"reverse:{plain_upstream.url}", "-w", str(tmp_path / "flows")
    with Mitmdump(tmp_path / "conf", *arguments) as proxy:
        chat = Chat(plain_upstream, proxy)
        private = [chunk({"reasoning": "private reply"}), chunk({"reasoning": LEAK})]
        chat.ask(
            sse([*private, chunk({}, "stop")]),
            path="/v1/chat/completions?key=private-query",
            headers=(("authorization", "Bearer sk-private"), ("x-a", "private-header")),
            request={**REQUEST, "messages": [{"role": "user", "content": "private prompt"}]},
        )
        chat.ask("clean_text")
        chat.ask("kimi_header_counter")
        chat.ask("kimi_cut_off")
        chat.ask("kimi_whole_message", request={**REQUEST, "stream": False})
        chat.ask("kimi_specification", ";abort=7000;cut=event")
        log = proxy.wait_for_log(r"kimi_specification;abort=7000\S*: ✗ connection broken")
        proxy.check_log()
    lines = [line for line in log.splitlines() if " · repair" in line]
    first, counter, cut_off, whole, aborted = lines
    assert "made_up" in first
    assert re.search(
        r"✓ 1 call bash · repair · kimi · 1 repaired from kimi_k2 · first \d\.\d s; "
        r"repaired bash \(kimi_k2, native id\)$",
        first,
    )
    assert "inferred from its arguments" in counter
    assert "damaged call of write, cut off" in cut_off
    assert "kimi_whole_message" in whole
    assert "✓ 1 call bash" in whole
    assert "abort=7000" in aborted
    comments = comments_in(tmp_path / "flows")
    assert re.match(
        r"✓ 1 call bash · repair · kimi · 1 repaired from kimi_k2 · first \d\.\d s$", comments[0]
    )
    assert re.match(r"✓ text · clean · \S+ · \d+ tok · first \d\.\d s$", comments[1])
    for secret in PRIVATE:
        assert secret not in log
        assert secret not in "".join(comments)


def comments_in(file: Path) -> list[str]:
    """The comments of the flows that mitmdump wrote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pyparsing
        from mitmproxy.io import FlowReader  # noqa: PLC0415
    with file.open("rb") as stored:
        return [flow.comment for flow in FlowReader(stored).stream()]
