"""Claude Code, and hosts that read its requests as open models do: what they refuse, and in what
words a conversation is too long for them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.bridge.messages_streams import Block, event, stream
from tests.live.claude_code import Claude
from tests.live.test_claude_code import ANSWER, calls_in, host, leaked, native
from tests.wire.overflows import OVERFLOWS, anthropic

pytestmark = pytest.mark.heavy
SUMMARY = "It said it three times."
TURNS = 3
"""With calls, before the conversation is too long: 2.1.153 compacts none of one."""
BEGUN = stream([("text", ["I "])]).partition(b"event: content_block_stop")[0]


def too_long(error: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """A host for which a conversation of more than `TURNS` is too long."""
    numbers = itertools.count()

    def reply(request: Request) -> Reply:
        *_, last = request.json["messages"]
        calls, said, number = len(calls_in(request)), json.dumps(last), next(numbers)
        if "<summary>" in said:
            body = stream([("text", [f"<summary>{SUMMARY}</summary>"])])
        elif SUMMARY.encode() in request.body:
            body = stream(ANSWER)
        elif calls < TURNS:
            body = stream([native(str(calls))], "tool_use")
        else:
            return error(request)
        body = body.replace(b"msg_1", b"msg_%d" % number)
        return Reply(body.replace(b"toolu_", b"toolu_%d" % number))

    return reply


def compacts(claude: Claude) -> None:
    assert claude.answer() == "All is well."
    assert claude.ran == ["0", "1", "2"]
    assert SUMMARY.encode() in claude.requests[-1].body


ANSWER_TOO_LONG = "anthropic, answer"


@pytest.mark.parametrize("words", [each for each in OVERFLOWS if each != ANSWER_TOO_LONG])
def test_it_compacts_where_a_host_says_that_the_prompt_is_too_long(
    claude: Claude, words: str
) -> None:
    status, error = OVERFLOWS[words]
    body = json.dumps(error).encode()
    claude.talks_to(too_long(lambda _: Reply(body, "application/json", status)))
    compacts(claude)


def test_it_asks_for_a_shorter_answer_in_anthropics_words(claude: Claude) -> None:
    """Which pass as they are: 10,000 tokens are left."""
    status, error = OVERFLOWS[ANSWER_TOO_LONG]
    refused = Reply(json.dumps(error).encode(), "application/json", status)
    fits = host()
    claude.talks_to(
        lambda request: fits(request) if request.json["max_tokens"] <= 10_000 else refused
    )
    assert claude.answer() == "All is well."


def test_it_compacts_where_an_event_of_a_stream_says_so(claude: Claude) -> None:
    """It asks the same again without a stream, and is answered by an error."""
    error = anthropic("input length exceeds the context length")
    whole = Reply(json.dumps(error).encode(), "application/json", 400)
    streamed = Reply(BEGUN + event(error))
    claude.talks_to(too_long(lambda request: streamed if request.json.get("stream") else whole))
    compacts(claude)


def test_each_request_begins_as_the_one_before(claude: Claude) -> None:
    """The billing header of 2.1.153 differs in each; so the host's cache would find nothing."""
    claude.talks_to(host([leaked("one")], [leaked("two")]))
    assert claude.answer() == "All is well."
    first, *later = claude.requests
    assert len(later) == 2
    for request in (first, *later):
        assert b"x-anthropic-billing-header" not in request.body
    for request in later:
        assert (request.json["system"], request.json["tools"]) == (
            first.json["system"],
            first.json["tools"],
        )
    claude.proxy.wait_for_log("cured: left out the billing header")


PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""


def test_a_pdf_that_it_reads_is_a_line_that_says_what_to_do(claude: Claude) -> None:
    path = claude.folder / "work" / "a.pdf"
    path.write_bytes(PDF)
    read: Block = ("tool_use", ("Read", [json.dumps({"file_path": str(path)})]))
    claude.talks_to(host([read]))
    assert claude.answer() == "All is well."
    last = claude.requests[-1]
    assert b'"document"' not in last.body and b"JVBERi0" not in last.body
    assert b"this host takes no PDF. To read it, use a tool" in last.body
