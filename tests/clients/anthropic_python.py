"""The official anthropic client for Python, asked as openai_python.py is: each job is a message,
whole or put together from its stream by the client's own helper."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic
from jobs import TIMEOUT, serve


def answered(message: Any) -> dict[str, Any]:
    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    return {"content": blocks, "stop_reason": message.stop_reason}


def ask(how: str, base_url: str, request: Any) -> dict[str, Any]:
    with Anthropic(base_url=base_url, api_key="sk-test", max_retries=0, timeout=TIMEOUT) as client:
        if how == "create":
            return answered(client.messages.create(**request))
        with client.messages.stream(**request) as stream:
            return answered(stream.get_final_message())


def main() -> None:
    serve(ask)


if __name__ == "__main__":
    main()
