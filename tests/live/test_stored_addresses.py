"""What is asked about kept responses is answered by the proxy, in the API's own forms.

Every body is validated by the types of the openai package where that is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.responses.dialects import DIALECTS
from dragoman.wire.sse import FrameSplitter
from fixtures.server import Reply, Upstream
from tests.bridge.grammar import check
from tests.live.mitmdump import Mitmdump
from tests.live.stored import HELD, Client, Item, called, not_found, outputs_of, said
from tests.repair.streams import chunk, sse
from tests.waiting import eventually

try:
    from openai.types.responses import Response
    from openai.types.responses.response_item_list import ResponseItemList
except ImportError:  # it cannot be installed beside mitmproxy 11, which Python 3.11 needs
    Response = ResponseItemList = None  # type: ignore[assignment,misc]

UNKNOWN = "resp_" + "0" * 32


@pytest.fixture
def client(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Client:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return Client(plain_upstream, proxy)


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def any_client(
    request: pytest.FixtureRequest, tls_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> Client:
    """Through a regular proxy, with HTTP/1.1 or HTTP/2."""
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    http2 = request.param == "HTTP/2"
    return Client(tls_upstream, proxy, origin=tls_upstream.url, http2=http2)


def validated(response: Item) -> Item:
    if Response is not None:
        Response.model_validate_json(json.dumps(response), strict=True)
    return response


def listed(client: Client, response_id: str, query: str = "") -> Item:
    exchange = client.get(response_id, f"/input_items{query}")
    assert exchange.reply.status == 200, exchange.reply.body
    body: Item = exchange.json
    if ResponseItemList is not None:
        ResponseItemList.model_validate_json(json.dumps(body), strict=True)
    return body


def test_each_address_answers_without_the_upstream(any_client: Client) -> None:
    client = any_client
    streamed = client.response(called("ls"), "Go.", stream=True)
    whole = client.response(said("Hello."), "Hi.")
    asked = len(client.sent)
    for response in (streamed, whole):
        response_id = response["id"]
        assert validated(client.get(response_id).json) == response
        for body in ({}, None):
            error = client.call("POST", f"/{response_id}/cancel", body).error(400)
            assert error["message"] == "Cannot cancel a synchronous response."
        assert [item["role"] for item in listed(client, response_id)["data"]] == ["user"]
        assert client.call("DELETE", f"/{response_id}").json == {
            "id": response_id,
            "object": "response",
            "deleted": True,
        }
        for exchange in client.about(response_id):
            not_found(exchange, response_id)
        not_found(client.call("DELETE", f"/{response_id}"), response_id)
        not_found(client.call("POST", f"/{response_id}/cancel"), response_id)
        not_found(client.submit(said("No."), response, []), response_id)
    assert len(client.sent) == asked


EVERYTHING: list[Item] = [
    {"role": "user", "content": "plain text"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "in parts"}]},
    {"role": "developer", "content": "Be brief."},
    {"role": "system", "content": "Be kind."},
    {"role": "assistant", "content": "What I said."},
    {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "x"},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        ],
    },
]


def test_input_items_are_in_the_form_of_the_api(client: Client) -> None:
    response = client.response(said("Hello."), EVERYTHING)
    body = listed(client, response["id"], "?order=asc")
    assert body["object"] == "list"
    items = body["data"]
    assert [item["type"] for item in items] == [
        *["message"] * 5,
        *("function_call", "function_call_output", "message"),
    ]
    assert [part["type"] for item in items[:5] for part in item["content"]] == [
        *["input_text"] * 4,
        "output_text",
    ]
    ids = [item["id"] for item in items]
    assert len(set(ids)) == len(ids)
    assert (body["first_id"], body["last_id"], body["has_more"]) == (ids[0], ids[-1], False)


def test_input_items_are_all_that_was_said_before(client: Client) -> None:
    first = client.response(called("ls", thought="Hm."), "Go.")
    client.submit(said("Done."), first, outputs_of(first))
    second = client.response(said("Bye."), "Thanks.", previous_response_id=first["id"])
    items = listed(client, second["id"], "?order=asc&limit=100")["data"]
    assert [item["type"] for item in items] == [
        *("message", "reasoning", "function_call", "function_call_output", "message", "message"),
    ]
    assert items[-1]["content"] == [{"type": "input_text", "text": "Thanks."}]


def test_input_items_come_in_pages(client: Client) -> None:
    items = [{"role": "user", "content": f"{number}"} for number in range(45)]
    response = client.response(said("Hello."), items)
    for order, expected in (("asc", items), ("desc", items[::-1])):
        for limit in (1, 7, 20, 45, 100):
            found: list[Item] = []
            query = f"?order={order}&limit={limit}"
            while True:
                after = f"&after={found[-1]['id']}" if found else ""
                page = listed(client, response["id"], query + after)
                found += page["data"]
                assert len(page["data"]) <= limit
                if not page["has_more"]:
                    break
            assert [item["content"][0]["text"] for item in found] == [
                item["content"] for item in expected
            ]
    assert len(listed(client, response["id"])["data"]) == 20
    assert listed(client, response["id"])["data"][0]["content"][0]["text"] == "44"


def test_items_with_one_id_end_a_client_that_turns_all_pages(client: Client) -> None:
    items = [{"role": "user", "content": "x", "id": "same"} for _ in range(4)]
    response = client.response(said("Hello."), items)
    page = listed(client, response["id"], "?limit=1")
    assert page["has_more"]
    page = listed(client, response["id"], "?limit=1&after=same")
    assert (page["data"], page["has_more"], page["first_id"]) == ([], False, "")


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=%C2%B2", "limit"),
        ("order=up", "order"),
        ("after=nothing", "after"),
        ("after=%FF%00", "after"),
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(client: Client, query: str, param: str) -> None:
    response = client.response(said("Hello."), "Hi.")
    exchange = client.get(response["id"], f"/input_items?{query}")
    assert exchange.error(404 if param == "after" else 400)["param"] == param


# The stream again


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_can_be_had_again_from_any_event(client: Client, dialect: str) -> None:
    header = ("x-dragoman-dialect", dialect)
    exchange = client.ask(called("ls", thought="Hm."), "Go.", header, stream=True)
    story = exchange.story(dialect)
    response_id = story.response["id"]
    again = client.get(response_id, "?stream=true")
    assert again.reply.header("content-type") == "text/event-stream; charset=utf-8"
    assert again.reply.header("cache-control") == "no-cache"
    assert again.reply.body == exchange.reply.body
    assert check(FrameSplitter().feed(again.reply.body), DIALECTS[dialect]) == story
    frames = FrameSplitter().feed(exchange.reply.body)
    for number in range(len(story.events)):
        rest = client.get(response_id, f"?stream=true&starting_after={number}").reply.body
        assert rest == b"".join(frame.raw for frame in frames[number + 1 :])


def test_a_stream_is_had_again_in_one_delta_a_text_and_without_heartbeats(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    """Its end has the number that it had: whoever had all but that gets it."""
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    proxy = mitmdump(*arguments, "--set", "dragoman_heartbeat=0.1")
    client = Client(plain_upstream, proxy, options=";cut=event;pace=0.35")
    words = [chunk({"content": word}) for word in ("Hello", ", ", "you.")]
    reply = Reply(sse([*words, chunk({}, "stop")]))
    story = client.ask(reply, "Hi.", ("x-dragoman-dialect", "codex"), stream=True).story("codex")
    assert "ping" in {event["type"] for event in story.events}
    response_id, last = story.response["id"], story.events[-1]
    frames = FrameSplitter().feed(client.get(response_id, "?stream=true").reply.body)
    again = [json.loads(frame.data or b"") for frame in frames]
    assert [event["delta"] for event in again if "delta" in event] == ["Hello, you."]
    assert "ping" not in {event["type"] for event in again}
    assert again[-1] == last
    number = last["sequence_number"]
    for after, expected in ((number - 1, frames[-1].raw), (number, b"")):
        query = f"?stream=true&starting_after={after}"
        assert client.get(response_id, query).reply.body == expected


def test_a_whole_reply_to_a_streaming_client_is_a_stream_that_can_be_had_again(
    client: Client,
) -> None:
    choice = {"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}
    reply = Reply(json.dumps({"choices": [choice]}).encode(), "application/json")
    exchange = client.ask(reply, "Hi.", stream=True)
    response_id = exchange.story().response["id"]
    assert client.get(response_id, "?stream=true").reply.body == exchange.reply.body


def test_a_number_that_is_none_is_refused(client: Client) -> None:
    response = client.response(said("Hello."), "Hi.", stream=True)
    for number in ("x", "-2", "1e3", "", "9" * 40, "%00", "1%0A"):
        exchange = client.get(response["id"], f"?stream=true&starting_after={number}")
        assert exchange.error(400)["param"] == "starting_after"


def test_what_was_not_streamed_cannot_be(client: Client) -> None:
    response = client.response(said("Hello."), "Hi.")
    client.get(response["id"], "?stream=true").error(400)
    assert client.get(response["id"], "?stream=false").json == response
    assert client.get(response["id"], "?include=reasoning.encrypted_content").json == response


# While it runs


def test_a_response_that_runs_can_be_read_and_nothing_else(client: Client) -> None:
    slow = client.but(options=HELD)
    with slow.running(reply=said("Slow.")) as (response_id, stream):
        assert validated(slow.get(response_id).json)["status"] == "in_progress"
        for exchange in (
            slow.get(response_id, "?stream=true"),
            slow.get(response_id, "/input_items"),
            slow.call("DELETE", f"/{response_id}"),
            slow.submit(said("No."), {"id": response_id}, []),
            slow.ask(said("No."), "Hi.", previous_response_id=response_id),
        ):
            error = exchange.error(409)
            assert "still in progress" in error["message"] and response_id in error["message"]
            assert exchange.sent == []
        mallory = slow.but(key="sk-mallory")
        exchange = mallory.ask(said("No."), "Hi.", previous_response_id=response_id)
        not_found(exchange, response_id, previous=True)
        error = slow.call("POST", f"/{response_id}/cancel").error(400)
        assert error["message"] == "Cannot cancel a synchronous response."
        slow.release()
        assert b"event: response.completed\n" in stream.read()
    assert slow.get(response_id).json["status"] == "completed"


def test_a_stream_whose_client_has_left_is_not_kept(client: Client) -> None:
    slow = client.but(options=HELD)
    with slow.running(reply=said("Hello.")) as (response_id, _):
        pass
    eventually(lambda: slow.get(response_id).reply.status == 404)
    not_found(slow.get(response_id), response_id)


# Hostile

IDS = [
    *("resp_", UNKNOWN, "x" * 5000, "..", "%2e%2e", "%00", "resp_%0A", "%FF%FE", "'", '"', ";"),
    *("é", "resp_1%2Fcancel", "null", "*", "[", "%", "%zz", "{}", "resp_*", "~", "\\"),
]


@pytest.mark.parametrize("response_id", IDS)
def test_a_hostile_id_is_one_that_is_not_there(client: Client, response_id: str) -> None:
    path = f"/{response_id}"
    exchanges = [
        client.get(path[1:]),
        client.get(path[1:], "?stream=true"),
        client.get(path[1:], "/input_items"),
        client.call("DELETE", path),
        client.call("POST", f"{path}/cancel", b"\xff"),
        client.call("POST", f"{path}/submit_tool_outputs", {"tool_outputs": []}),
    ]
    for exchange in exchanges:
        error = exchange.error(404)
        assert len(error["message"]) < 200
        assert exchange.sent == []


@pytest.mark.parametrize("body", [b"", b"null", b"{", b"\xff" * 9, b"[" * 9000, b'{"a":1e999}'])
def test_bodies_that_nobody_reads_change_nothing(client: Client, body: bytes) -> None:
    response = client.response(said("Hello."), "Hi.")
    response_id = response["id"]
    assert client.call("GET", f"/{response_id}", body).json == response
    assert client.call("POST", f"/{response_id}/cancel", body).reply.status == 400
    assert client.get(response_id).json == response
    assert client.call("GET", f"/{response_id}/input_items", body).reply.status == 200
    assert client.call("DELETE", f"/{response_id}", body).json["deleted"] is True


def test_other_methods_and_addresses_are_the_upstreams(client: Client) -> None:
    response = client.response(said("Hello."), "Hi.")
    for method, path in (
        ("PUT", f"/{response['id']}"),
        ("POST", f"/{response['id']}"),
        ("GET", f"/{response['id']}/cancel"),
        ("DELETE", f"/{response['id']}/input_items"),
        ("POST", f"/{response['id']}/other"),
        ("POST", f"/{response['id']}/cancel/more"),
    ):
        exchange = client.call(method, path, {})
        assert exchange.reply.status == 404
        assert "nothing at" in exchange.json["error"]["message"]
