"""`dragoman check URL --model NAME`: whether a host needs Dragoman, by a handful of short requests.

The questions go to the user's own host, with the user's key, and nothing else is sent; nothing is
kept.  What is asked and what an answer says is in `inspect.host_check`.
"""

from __future__ import annotations

import argparse
import getpass
import http.client
import json
import os
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from ...inspect.host_check import Answer, Question, advice, as_json, judged, questions
from ...wire.reply_bounds import MAX_REPLY

KEY = "DRAGOMAN_KEY"
"""The variable of the environment that holds the key, if no other is named."""
TIMEOUT = 60.0
"""Seconds for an answer, to its end."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class NoAnswerError(Exception):
    """The host could not be asked; in words."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where the questions go."""

    base: str
    """Up to and without the slash before `chat/completions`."""
    key: str
    timeout: float

    def ask(self, question: Question) -> tuple[int, bytes]:
        """The status and the body of the answer; status 0: none came in time.

        :raises NoAnswerError: if the host cannot be reached
        """
        base = self.base
        if question.path == "/messages" and not base.endswith("/v1"):
            base += "/v1"
        headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        if question.path != "/messages":
            del headers["anthropic-version"]
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        body = json.dumps(question.body).encode()
        request = urllib.request.Request(base + question.path, body, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies()))
        deadline = time.monotonic() + self.timeout
        try:
            with opener.open(request, timeout=self.timeout) as response:
                return response.status, _read(response, deadline)
        except HTTPError as error:
            with error:
                return error.code, _read(error, deadline)
        except TimeoutError:
            return 0, b""
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                return 0, b""
            name = urlsplit(base).netloc
            raise NoAnswerError(f"{name} cannot be reached: {reason}") from None


def _read(response: http.client.HTTPResponse | HTTPError, deadline: float) -> bytes:
    """What has come of a body when it ends, or the time does.

    :raises TimeoutError: if that is nothing
    """
    body = bytearray()
    while len(body) < MAX_REPLY and time.monotonic() < deadline:
        try:
            piece = response.read1(65536) if hasattr(response, "read1") else response.read()
        except TimeoutError:
            if not body:
                raise
            break
        if not piece:
            break
        body += piece
    return bytes(body)


def _proxies() -> dict[str, str]:
    """The proxies of the environment, but for one on this machine: that may be Dragoman's own."""
    proxies = urllib.request.getproxies().items()
    return {name: url for name, url in proxies if urlsplit(url).hostname not in _LOOPBACK}


def main(command: str, words: Sequence[str]) -> int | str:
    """Ask, and print what was found; returns 0, or why the host could not be checked."""
    parser = argparse.ArgumentParser(
        prog=f"dragoman {command}",
        description="See whether a host needs Dragoman: a handful of short requests, to it alone.",
    )
    parser.add_argument("url", help="its base URL, as clients have it: https://api.moonshot.ai/v1")
    parser.add_argument("--model", required=True, help="the name of a model there")
    parser.add_argument(
        "--key-env", default=KEY, metavar="NAME", help=f"the variable that holds the key ({KEY})"
    )
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds for an answer")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    given = parser.parse_args(words)
    base = given.url.rstrip("/").removesuffix("/chat/completions")
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).netloc:
        return f"{given.url}: not a URL; write it as https://api.moonshot.ai/v1"
    key = os.environ.get(given.key_env, "")
    if not key and sys.stdin.isatty():
        key = getpass.getpass("Key of this host (empty for none): ")
    try:
        answers = _ask_all(Host(base, key.strip(), given.timeout), given.model)
    except NoAnswerError as error:
        return f"{error}"
    except KeyboardInterrupt:
        return "interrupted"
    if stopped := next((each for each in answers if each.fatal), None):
        return f"{stopped.fatal} ({stopped.detail})"
    start = advice(answers, _start(base))
    print(as_json(given.url, given.model, answers, start) if given.json else _table(answers, start))
    return 0


def _ask_all(host: Host, model: str) -> list[Answer]:
    """Ask one question after the other, as far as that has a sense; says so on standard error."""
    asked = [*questions(model)]
    answers: list[Answer] = []
    for count, question in enumerate(asked, 1):
        print(f"{count} of {len(asked)}: {question.what} …", file=sys.stderr, flush=True)
        status, body = host.ask(question)
        if host.key:  # hosts repeat it in what they say
            body = body.replace(host.key.encode(), b"[key]")
        answers.append(judged(question, status, body))
        if not answers[0].goes_on:
            if answers[0].fatal is None:
                raise NoAnswerError(f"No answer within {host.timeout:g} s")
            break
    return answers


def _start(base: str) -> str:
    address = urlsplit(base)
    plain = f"{address.scheme}://{address.netloc}"
    return f"dragoman run {plain if address.scheme == 'http' else address.hostname}"


def _table(answers: Sequence[Answer], start: str) -> str:
    width = max(len(each.what) for each in answers)
    rows = []
    for each in answers:
        cured = " (Dragoman sends it in a form that is taken)" if each.cured else ""
        detail = f" {each.detail}" if each.detail else ""
        rows.append(f"{each.what:{width}}  {each.outcome}{detail}{cured}")
    last = f"Start with:\n  {start}" if start else "It needs no Dragoman."
    return "\n".join([*rows, "", last])
