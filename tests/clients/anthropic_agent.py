"""The tool runner of the official anthropic client for Python, asked as openai_python.py is."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic, beta_tool
from jobs import TIMEOUT, serve


def ask(how: str, base_url: str, request: Any) -> dict[str, Any]:
    executed: list[str] = []

    @beta_tool
    def bash(command: str) -> str:
        """Run a shell command."""
        executed.append(command)
        return "from-the-tool"

    @beta_tool
    def brew(minutes: int) -> str:
        """Brew tea."""
        return f"brewed for {minutes} minutes"

    streams = how.endswith(".stream")
    address = base_url.removesuffix("/v1")
    with Anthropic(base_url=address, api_key="sk-test", max_retries=0, timeout=TIMEOUT) as client:
        runner: Any = client.beta.messages.tool_runner(
            model="kimi-k2.5",
            max_tokens=1000,
            messages=[{"role": "user", "content": request["prompt"]}],
            tools=[bash],
            stream=streams,
        )
        for turn in runner:
            message = turn.get_final_message() if streams else turn
            if request.get("adds") and message.stop_reason == "tool_use":
                runner.add_tools(brew)
        text = "".join(block.text for block in message.content if block.type == "text")
    return {"text": text, "executed": executed}


def main() -> None:
    serve(ask)


if __name__ == "__main__":
    main()
