"""The openai-agents package with a tool it runs itself, asked as openai_python.py is."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from jobs import TIMEOUT, serve
from openai import AsyncOpenAI

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


def agent_of(model: Any, base_url: str, name: str) -> tuple[Agent, list[str]]:
    """An agent with a tool, and what that tool has been called with."""
    executed: list[str] = []

    @function_tool
    def bash(command: str) -> str:
        """Run a shell command."""
        executed.append(command)
        return "from-the-tool"

    client = AsyncOpenAI(base_url=base_url, api_key="sk-test", max_retries=0, timeout=TIMEOUT)
    return Agent(name="tester", model=model(name, client), tools=[bash]), executed


async def run(
    how: str, base_url: str, prompt: str, name: str = "kimi-k2.5", max_turns: int = 10
) -> dict[str, Any]:
    api, mode = how.split(".")
    agent, executed = agent_of(MODELS[api], base_url, name)
    if mode == "stream":
        result = Runner.run_streamed(agent, prompt, max_turns=max_turns)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, prompt, max_turns=max_turns)
    return {"text": result.final_output, "executed": executed}


async def converse(how: str, base_url: str, prompts: list[str]) -> dict[str, Any]:
    """Several prompts, one after the other; the agent or the host remembers."""
    agent, executed = agent_of(OpenAIResponsesModel, base_url, "kimi-k2.5")
    remembers: dict[str, Any] = {}
    if how == "session":
        remembers["session"] = SQLiteSession("one")
    elif how == "auto previous response":
        remembers["auto_previous_response_id"] = True
    texts = []
    for number, prompt in enumerate(prompts):
        if number % 2:
            result: Any = Runner.run_streamed(agent, prompt, **remembers)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, prompt, **remembers)
        texts.append(result.final_output)
        if how != "session":
            remembers = {"previous_response_id": result.last_response_id} | (
                {"auto_previous_response_id": True} if "auto" in how else {}
            )
    return {"texts": texts, "executed": executed}


def ask(how: str, base_url: str, request: Any) -> dict[str, Any]:
    if "prompts" in request:
        return asyncio.run(converse(how, base_url, request["prompts"]))
    return asyncio.run(run(how, base_url, **request))


def main() -> None:
    set_tracing_disabled(True)
    serve(ask)


if __name__ == "__main__":
    main()
