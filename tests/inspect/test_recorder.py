"""A record is read the same from a flow that runs and from a file of flows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mitmproxy import http
from mitmproxy.io import tnetstring
from mitmproxy.test import tflow

from dragoman.inspect.exchange import Exchange
from dragoman.inspect.outcome import RUNNING, Outcome
from dragoman.notes import Evidence
from dragoman.proxy.observe.recorder import (
    KEY,
    ClientRequest,
    FlowRecorder,
    client_request_of,
    exchange_of,
)

SENT = ClientRequest(b"{}", "/v1/responses?a", "openai", b"[]")
ENDED = Outcome("failed", "tools[0]: is odd", "tools[0]")


def loaded(flow: http.HTTPFlow) -> http.HTTPFlow:
    """The flow, saved now and loaded by another mitmproxy."""
    state = tnetstring.loads(tnetstring.dumps(flow.get_state()))
    return http.HTTPFlow.from_state(state)


def read(flow: http.HTTPFlow) -> Exchange:
    exchange = exchange_of(flow)
    assert exchange is not None
    return exchange


def recorded(flow: http.HTTPFlow, client_request: ClientRequest | None) -> FlowRecorder:
    job = "bridge" if client_request else "repair"
    record = FlowRecorder(flow, job, keep=20)
    record.client_request = client_request
    flow.metadata[KEY] = record.begun()
    record.evidence.note("dropped", "tool x")
    record.evidence.cure(done := Evidence())
    assert not record.evidence.cures
    done.note("left out", "the billing header")
    record.evidence.cure(done)
    record.evidence.request_left()
    record.evidence.call("bash", "dsml", "plain name")
    record.evidence.change("dropped", "stray marker")
    record.streamed = True
    record.reply.add(b"from the upstream", b"to the client")
    record.reply.add(b", more", b"")
    return record


@pytest.mark.parametrize("client_request", [None, SENT], ids=["repair", "bridge"])
def test_a_record_is_read_the_same_while_its_flow_runs_and_from_a_file(
    client_request: ClientRequest | None,
) -> None:
    flow = tflow.tflow(resp=True)
    record = recorded(flow, client_request)
    running = read(flow)
    assert running.outcome is RUNNING
    assert running.upstream_missing == 3
    assert running.evidence.changed
    record.outcome = ENDED
    record.end(flow)
    ended = replace(running, outcome=ENDED)
    assert read(flow) == read(loaded(flow)) == ended
    assert client_request_of(loaded(flow)) == client_request


def test_a_flow_that_was_saved_while_it_ran_has_its_request_alone() -> None:
    flow = tflow.tflow(resp=True)
    recorded(flow, SENT)
    exchange = read(loaded(flow))
    assert exchange.outcome is RUNNING
    assert (exchange.job, exchange.client_request) == ("bridge", SENT.body)
    assert not (exchange.upstream_reply or exchange.evidence.calls or exchange.timing)


@pytest.mark.parametrize("metadata", [None, 1, "x", [1], {"job": "repair"}, {"version": 0}])
def test_what_another_version_or_anybody_else_has_recorded_is_not_read(metadata: object) -> None:
    flow = tflow.tflow(resp=True)
    recorded(flow, SENT).end(flow)
    flow.metadata[KEY] = metadata
    assert exchange_of(loaded(flow)) is None
    assert client_request_of(loaded(flow)) is None
    assert FlowRecorder(flow, "repair", keep=0).signed == ["", ""]
