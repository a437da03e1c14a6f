"""The official anthropic client for Python, asked as openai_python.py is: each job is a message,
whole or put together from its stream by the client's own helper."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from anthropic import Anthropic


def answered(message: Any) -> dict[str, Any]:
    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    return {"content": blocks, "stop_reason": message.stop_reason}


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        try:
            with Anthropic(
                base_url=job["base_url"], api_key="sk-test", max_retries=0, timeout=20
            ) as client:
                if job["how"] == "create":
                    result = answered(client.messages.create(**job["request"]))
                else:
                    with client.messages.stream(**job["request"]) as stream:
                        result = answered(stream.get_final_message())
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
