"""An agent of pydantic-ai's with Anthropic's API and a tool it runs itself, asked as
openai_python.py is."""

from __future__ import annotations

import asyncio
from typing import Any

from jobs import serve
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider


async def run(how: str, base_url: str, prompt: str) -> dict[str, Any]:
    executed: list[str] = []
    provider = AnthropicProvider(api_key="sk-test", base_url=base_url.removesuffix("/v1"))
    agent = Agent(AnthropicModel("kimi-k2.5", provider=provider))

    @agent.tool_plain
    def bash(command: str) -> str:
        """Run a shell command."""
        executed.append(command)
        return "from-the-tool"

    if how.endswith(".create"):
        result: Any = await agent.run(prompt)
        return {"text": result.output, "executed": executed}
    async with agent.run_stream(prompt) as streamed:
        return {"text": await streamed.get_output(), "executed": executed}


def ask(how: str, base_url: str, request: Any) -> dict[str, Any]:
    return asyncio.run(run(how, base_url, request["prompt"]))


def main() -> None:
    serve(ask)


if __name__ == "__main__":
    main()
