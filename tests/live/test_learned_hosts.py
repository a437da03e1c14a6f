"""What was found out about upstreams is kept where responses are kept; what is
kept of responses is served, whatever is known of their upstream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply
from tests.live.mitmdump import Mitmdump, make_confdir
from tests.live.responses import REQUEST, WHOLE
from tests.live.unknown_host import KEY, NATIVE, NO_ADDRESS, OTHER_KEY, Host, UnknownHosts
from tests.repair.streams import chunk, sse
from tests.stored.redis_server import RedisServer

CODEX = ("x-dragoman-dialect", "codex")
CALL = {"index": 0, "id": "functions.bash:0", "function": {"name": "bash", "arguments": "{}"}}
CALLS = Reply(sse([chunk({"tool_calls": [CALL]}), chunk({}, "tool_calls")]))
OUTPUTS = {"tool_outputs": [{"tool_call_id": "functions.bash:0", "output": "done"}]}
UNKNOWN = "resp_" + "0" * 32
Start = Callable[..., Mitmdump]


@pytest.fixture(params=["sqlite", "redis"])
def start(request: pytest.FixtureRequest, unknown: UnknownHosts, tmp_path: Path) -> Iterator[Start]:
    """Starts mitmdumps that share what they keep."""
    with ExitStack() as stack:
        make_confdir(tmp_path)
        arguments = ["--mode", f"reverse:{unknown.url}"]
        if request.param == "redis":
            redis = stack.enter_context(RedisServer(tmp_path))
            arguments += ["--set", f"dragoman_store={redis.url}"]

        def run(*more: str) -> Mitmdump:
            proxy = stack.enter_context(Mitmdump(tmp_path, *arguments, *more))
            stack.callback(proxy.check_log)
            return proxy

        yield run


def at(unknown: UnknownHosts, proxy: Mitmdump) -> Host:
    return Host(unknown, proxy, proxy.url)


def response_of(host: Host, *headers: tuple[str, str], **fields: Any) -> dict[str, Any]:
    reply = host.ask(WHOLE | fields, KEY, *headers)
    assert reply.status == 200
    response: dict[str, Any] = json.loads(reply.body)
    return response


def about(host: Host, what: str, *headers: tuple[str, str], method: str = "GET") -> int:
    """The status of a request about a response."""
    return host.ask(b"", *headers, path=f"/v1/responses/{what}", method=method).status


def test_what_was_found_out_is_known_after_a_restart(unknown: UnknownHosts, start: Start) -> None:
    first = start()
    host = at(unknown, first).says(NO_ADDRESS)
    kept = response_of(host)["id"]
    first.stop()
    host.says(NATIVE)
    again = host.behind(start())
    assert about(again, kept, KEY) == 200
    assert about(again, UNKNOWN, KEY) == 404
    assert json.loads(again.ask(WHOLE | {"previous_response_id": kept}, KEY).body)["output"]
    assert about(again, kept, KEY, method="DELETE") == 200
    assert host.arrived == ["request", "chat", "chat"]


def test_another_instance_knows_it_at_once(unknown: UnknownHosts, start: Start) -> None:
    host = at(unknown, start()).says(NO_ADDRESS)
    other = host.behind(start())
    host.ask(REQUEST, KEY)
    other.ask(REQUEST, KEY)
    assert host.arrived == ["request", "chat", "chat"]


def test_who_has_answered_once_is_not_bridged_after_a_restart(
    unknown: UnknownHosts, start: Start
) -> None:
    host = at(unknown, start()).says(NATIVE)
    host.ask(REQUEST, KEY)
    host.says(NO_ADDRESS)
    assert host.behind(start()).ask(REQUEST, KEY).status == 404
    assert host.arrived == ["request", "request"]


def test_what_was_unlearned_is_not_known_after_a_restart(
    unknown: UnknownHosts, start: Start
) -> None:
    host = at(unknown, start()).says(NO_ADDRESS, chat=NO_ADDRESS)
    host.ask(REQUEST, KEY)
    host.says(NATIVE)
    assert host.behind(start()).ask(REQUEST, KEY).status == 200
    assert host.arrived == ["request", "chat", "request"]


def test_what_was_found_out_without_a_key_counts_for_nobody_who_has_one(
    unknown: UnknownHosts, start: Start
) -> None:
    host = at(unknown, start()).says(NO_ADDRESS)
    host.ask()
    host.says(NATIVE)
    again = host.behind(start())
    again.ask()
    for _ in range(2):
        again.ask(REQUEST, KEY)
    assert host.arrived == ["request", "chat", "chat", "request", "request"]


def test_no_key_in_an_address_is_stored(unknown: UnknownHosts, tmp_path: Path) -> None:
    make_confdir(tmp_path)
    with Mitmdump(tmp_path, "--mode", f"reverse:{unknown.url}") as proxy:
        body = json.dumps(REQUEST | {"store": False}).encode()
        at(unknown, proxy).says(NO_ADDRESS).ask(body, path="/v1/responses?key=private-query")
        proxy.check_log()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("dragoman.sqlite3*"))
    assert b"chat" in stored
    assert b"private-query" not in stored


def test_nothing_needs_a_store(unknown: UnknownHosts, mitmdump: Start) -> None:
    proxy = mitmdump("--mode", f"reverse:{unknown.url}", "--set", "dragoman_store=off")
    host = at(unknown, proxy).says(NO_ADDRESS)
    assert [host.ask().status for _ in range(2)] == [200, 200]
    assert host.arrived == ["request", "chat", "chat"]
    assert about(host, UNKNOWN) == 404
    assert host.arrived[3:] == ["request"]


def test_a_response_that_is_kept_is_served_where_nothing_is_known(
    unknown: UnknownHosts, start: Start
) -> None:
    made = at(unknown, start("--set", "dragoman_bridge=~all")).says(NATIVE)
    kept = response_of(made)["id"]
    made.says(NATIVE, chat=CALLS)
    waiting = response_of(made, CODEX)["id"]
    host = made.behind(start())
    before = len(made.arrived)
    assert about(host, kept, KEY) == 200
    assert about(host, f"{kept}/input_items", KEY) == 200
    assert about(host, kept, KEY, method="DELETE") == 200
    assert len(host.arrived) == before
    resumed = host.ask(OUTPUTS, KEY, CODEX, path=f"/v1/responses/{waiting}/submit_tool_outputs")
    assert resumed.status == 200
    assert host.arrived[before:] == ["chat"]
    host.proxy.wait_for_log("bridge · .*; bridged: its response is kept here")


def test_what_is_not_kept_for_who_asks_goes_to_an_upstream_that_is_not_known(
    unknown: UnknownHosts, start: Start
) -> None:
    made = at(unknown, start("--set", "dragoman_bridge=~all")).says(NATIVE)
    kept = response_of(made)["id"]
    host = made.behind(start())
    for count, what in enumerate([UNKNOWN, "resp_6f2b", kept, f"{kept}/input_items"], 1):
        assert about(host, what, OTHER_KEY) == 200
        assert host.arrived[1:] == ["request"] * count


@pytest.mark.parametrize("query", ["", "?api-version=1"])
def test_what_is_known_of_the_address_counts_for_requests_about_responses(
    unknown: UnknownHosts, mitmdump: Start, query: str
) -> None:
    proxy = mitmdump("--mode", f"reverse:{unknown.url}")
    host = at(unknown, proxy).says(NO_ADDRESS)
    assert host.ask(WHOLE, KEY, path=f"/v1/responses{query}").status == 200
    more = "&".join(filter(None, [query[1:], "stream=true&include[]=x&starting_after=1"]))
    assert about(host, f"{UNKNOWN}?{more}", KEY) == 404
    assert host.arrived == ["request", "chat"]
    host.says(NATIVE)
    assert about(host, f"{UNKNOWN}?api-version=2", KEY) == 200
    assert host.arrived[2:] == ["request"]
