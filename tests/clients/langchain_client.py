"""LangChain's chat model with a tool that its program runs, asked as openai_python.py is."""

from __future__ import annotations

from typing import Any

from jobs import TIMEOUT, serve
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def bash(command: str) -> str:
    """Run a shell command."""
    return f"from-the-tool {command}"


def chat(how: str, base_url: str, prompt: str, name: str, max_turns: int) -> dict[str, Any]:
    """As its documentation shows it: what came back goes into the next request."""
    model = ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key="sk-test",
        temperature=0.2,
        max_retries=0,
        timeout=TIMEOUT,
    ).bind_tools([bash])
    messages: list[BaseMessage] = [HumanMessage(prompt)]
    for _ in range(max_turns):
        reply: Any = AIMessageChunk("")
        if how == "chat.stream":
            for piece in model.stream(messages):
                reply += piece
        else:
            reply = model.invoke(messages)
        messages.append(reply)
        if not reply.tool_calls:
            return {"text": reply.text}
        messages += [
            ToolMessage(bash.invoke(call["args"]), tool_call_id=call["id"])
            for call in reply.tool_calls
        ]
    return {"error": "it never ended"}


def main() -> None:
    serve(lambda how, base_url, request: chat(how, base_url, **request))


if __name__ == "__main__":
    main()
