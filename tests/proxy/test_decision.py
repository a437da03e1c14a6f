"""What is done with a flow, by its request, the options and what is known of its host."""

from __future__ import annotations

import asyncio

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from dragoman.proxy.chat_only_hosts import Hosts
from dragoman.proxy.decision import Decision, Decisions
from dragoman.proxy.flows.cure_flow import CureFlow
from dragoman.proxy.flows.repair_reply import RepairReplies
from dragoman.proxy.observe.monitor import FlowMonitor
from dragoman.proxy.options import Settings
from dragoman.proxy.stored.async_store import AsyncStore
from dragoman.proxy.stored.endpoints import StoredEndpoints

KNOWN = "https://api.moonshot.ai/v1"
UNKNOWN = "https://host.test/v1"
NATIVE = "https://api.openai.com/v1"


def decisions(**settings: object) -> Decisions:
    store = AsyncStore()
    made = Decisions(Hosts(store), store, StoredEndpoints(store, lambda *_: None))
    made.settings = Settings(**settings)  # type: ignore[arg-type]
    return made


def flow_of(request: str, **headers: str) -> http.HTTPFlow:
    method, url = request.split(" ")
    return tflow.tflow(req=http.Request.make(method, url, b"{}", headers))


@pytest.mark.parametrize(
    ("request_", "way", "unsure"),
    [
        (f"POST {KNOWN}/responses", "bridge", False),
        ("POST https://API.MOONSHOT.AI/v1/responses", "bridge", False),
        (f"POST {KNOWN}/responses/compact", "refuse", False),
        (f"POST {KNOWN}/conversations", "refuse", False),
        (f"GET {KNOWN}/responses/resp_1", "send", False),
        (f"POST {KNOWN}/chat/completions", "send", False),
        (f"POST {KNOWN}/embeddings", "send", False),
        (f"POST {UNKNOWN}/responses", "send", True),
        (f"POST {UNKNOWN}/responses/resp_1/submit_tool_outputs", "send", False),
        (f"POST {NATIVE}/responses", "send", False),
    ],
)
def test_the_head_says_what_is_known_without_asking(request_: str, way: str, unsure: bool) -> None:
    decision = decisions().at_head(flow_of(request_))
    assert (decision.way, decision.unsure) == (way, unsure)


@pytest.mark.parametrize(
    ("request_", "way"),
    [
        (f"POST {NATIVE}/responses", "bridge"),
        (f"POST {UNKNOWN}/responses", "bridge"),
        (f"POST {KNOWN}/responses", "bridge"),
        (f"POST {UNKNOWN}/responses/compact", "refuse"),
        (f"POST {UNKNOWN}/conversations", "send"),
        (f"POST {KNOWN}/conversations", "refuse"),
        (f"POST {UNKNOWN}/chat/completions", "send"),
    ],
)
def test_a_filter_decides_for_all_but_what_others_call_conversations(
    request_: str, way: str
) -> None:
    everything = decisions(bridge=lambda _: True)
    decision = asyncio.run(everything.at_body(flow_of(request_)))
    assert (decision.way, decision.unsure) == (way, False)
    nothing = decisions(bridge=lambda _: False)
    assert asyncio.run(nothing.at_body(flow_of(request_))).way == "send"
    assert not nothing.at_head(flow_of(request_)).unsure


@pytest.mark.parametrize(
    ("request_", "cured"),
    [
        (f"POST {UNKNOWN}/chat/completions", True),
        (f"POST {NATIVE}/responses", True),
        (f"GET {NATIVE}/responses/resp_1", False),
        (f"POST {UNKNOWN}/embeddings", False),
    ],
)
def test_what_asks_a_model_is_cured_unless_it_is_replayed(request_: str, cured: bool) -> None:
    flow = flow_of(request_)
    assert decisions().at_head(flow).cured is cured
    assert not decisions(cure=lambda _: False).at_head(flow).cured
    flow.is_replay = "request"
    assert not decisions().at_head(flow).cured


def test_the_header_with_the_dialect_is_read_before_it_is_removed() -> None:
    flow, made = flow_of(f"POST {KNOWN}/responses"), decisions()
    flow.request.headers["x-dragoman-dialect"] = "codex"
    made.at_head(flow)
    del flow.request.headers["x-dragoman-dialect"]
    assert asyncio.run(made.at_body(flow)).dialect == "codex"


def test_what_did_not_come_through_here_is_decided_by_its_head() -> None:
    decision: Decision = decisions().of(flow_of(f"POST {KNOWN}/responses"))
    assert decision.why == "its host is on the built-in list"


def sent(base: str = UNKNOWN) -> tuple[Decisions, http.HTTPFlow]:
    """A request to a host of which nothing is known."""
    made, flow = decisions(), flow_of(f"POST {base}/responses", authorization="Bearer a")
    flow.request.content = b'{"model": "m", "input": "x"}'
    assert asyncio.run(made.at_body(flow)).way == "send"
    return made, flow


def reply(status: int, body: bytes = b"{}") -> http.Response:
    return http.Response.make(status, body, {"content-type": "application/json"})


@pytest.mark.parametrize(
    ("response", "way"),
    [
        (reply(404), "bridge"),
        (reply(405), "bridge"),
        (reply(404, b'{"error": {"message": "The model `m` does not exist"}}'), "send"),
        (reply(400), "send"),
        (reply(200), "send"),
    ],
)
def test_a_404_about_the_address_decides_once_more(response: http.Response, way: str) -> None:
    made, flow = sent()
    assert made.at_missing(flow, response) is (way == "bridge")
    assert made.of(flow).way == made.at_head(flow).way == way


@pytest.mark.parametrize(
    "name",
    [
        *("api.openai.com", "eu.api.openai.com", "API.OpenAI.com", "chatgpt.com"),
        *("mine.openai.azure.com", "mine.cognitiveservices.azure.com", "mine.openai.azure.us"),
    ],
)
def test_of_those_who_are_known_to_speak_responses_nothing_is_learned(name: str) -> None:
    made, flow = sent(f"https://{name}/v1")
    assert not made.at_head(flow).unsure
    assert not made.at_missing(flow, reply(404))
    assert asyncio.run(made.at_body(flow)).address == ""


def answer(kind: str) -> http.Response:
    return http.Response.make(200, b"", {"content-type": kind})


def test_who_has_answered_once_is_not_decided_about_again() -> None:
    made, flow = sent()
    made.answered(flow, answer("text/event-stream"))
    assert not made.at_missing(flow, reply(404))
    assert made.at_head(flow).way == "send"


def test_json_is_an_answer_once_it_is_seen_to_be_a_turn() -> None:
    made, flow = sent()
    made.answered(flow, answer("application/json"))
    made.gave_turn(flow, answer("application/json"), made.of(flow))
    assert not made.at_missing(flow, reply(404))
    made, flow = sent()
    made.answered(flow, answer("application/json"))
    assert made.at_missing(flow, reply(404))


def test_an_address_whose_chat_path_is_missing_too_is_unknown_again() -> None:
    made, flow = sent()
    assert made.at_missing(flow, reply(404))
    made.at_missing_chat(flow, reply(404, b'{"error": "no such model"}'))
    assert made.at_head(flow).way == "bridge"
    assert asyncio.run(made.at_body(flow)).way == "bridge"
    made.at_missing_chat(flow, reply(404))
    assert (made.at_head(flow).way, made.at_head(flow).unsure) == ("send", True)


@pytest.mark.parametrize(
    ("host", "path", "wanted"),
    [
        ("api.anthropic.com", "/v1/messages", False),
        ("api.anthropic.com", "/v1/chat/completions", True),
        ("api.moonshot.ai", "/anthropic/v1/messages", True),
    ],
)
def test_messages_of_anthropics_own_host_are_repaired_if_a_filter_names_it(
    host: str, path: str, wanted: bool
) -> None:
    monitor = FlowMonitor()
    replies = RepairReplies(monitor, CureFlow(monitor, AsyncStore()), has_layer=False)
    headers = {"anthropic-version": "2023-06-01"}
    request = http.Request.make("POST", f"https://{host}{path}", b"{}", headers)
    flow = tflow.tflow(req=request)
    assert replies.is_wanted(flow, Settings()) is wanted
    assert replies.is_wanted(flow, Settings(repair=lambda _: True))
