"""The openai-agents package with a tool it runs itself, asked as openai_python.py is."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
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
from openai import AsyncOpenAI

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


async def run(
    how: str, base_url: str, prompt: str, name: str = "kimi-k2.5", max_turns: int = 10
) -> dict[str, Any]:
    api, mode = how.split(".")
    executed: list[str] = []

    @function_tool
    def bash(command: str) -> str:
        """Run a shell command."""
        executed.append(command)
        return "from-the-tool"

    client = AsyncOpenAI(base_url=base_url, api_key="sk-test", max_retries=0, timeout=20)
    model = MODELS[api](name, client)
    agent = Agent(name="tester", model=model, tools=[bash])
    if mode == "stream":
        result = Runner.run_streamed(agent, prompt, max_turns=max_turns)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, prompt, max_turns=max_turns)
    return {"text": result.final_output, "executed": executed}


async def converse(how: str, base_url: str, prompts: list[str]) -> dict[str, Any]:
    """Several prompts, one after the other; the agent or the host remembers."""
    executed: list[str] = []

    @function_tool
    def bash(command: str) -> str:
        """Run a shell command."""
        executed.append(command)
        return "from-the-tool"

    client = AsyncOpenAI(base_url=base_url, api_key="sk-test", max_retries=0, timeout=20)
    agent = Agent(name="tester", model=OpenAIResponsesModel("kimi-k2.5", client), tools=[bash])
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


def main() -> None:
    set_tracing_disabled(True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            how, base_url, request = job["how"], job["base_url"], job["request"]
            if "prompts" in request:
                result = asyncio.run(converse(how, base_url, request["prompts"]))
            else:
                result = asyncio.run(run(how, base_url, **request))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
