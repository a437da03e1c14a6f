"""The official openai client for Python, asked over standard input.

Each line is a JSON job `{"how", "base_url", "request"}`, each line of the answer its
result, both through the environment's proxy.  A job whose `how` ends with "with retries"
has the client retry as it does by default.  Runs with the Python of `.venv-clients`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jobs import TIMEOUT, serve
from openai import DEFAULT_MAX_RETRIES, BadRequestError, OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

RETRIES = " with retries"


def chat_create(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    completion = client.chat.completions.create(**request, stream=False)
    return _chat_result(completion)


def chat_create_stream(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    """As hand-written loops do it: deltas joined by `index`."""
    result: dict[str, Any] = {"text": "", "reasoning": "", "calls": [], "finish_reason": None}
    for chunk in client.chat.completions.create(**request, stream=True):
        for choice in chunk.choices:
            delta = choice.delta
            result["text"] += delta.content or ""
            result["reasoning"] += getattr(delta, "reasoning_content", None) or ""
            result["finish_reason"] = choice.finish_reason or result["finish_reason"]
            for call in delta.tool_calls or []:
                if call.index == len(result["calls"]):
                    result["calls"].append({"id": call.id, "name": "", "arguments": ""})
                assert call.function
                result["calls"][call.index]["name"] += call.function.name or ""
                result["calls"][call.index]["arguments"] += call.function.arguments or ""
    return result


def chat_loop(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    """As hand-written loops do it: the reply goes into the next request, without its reasoning."""
    messages, called = list(request["messages"]), list[str]()
    ways = chat_create, chat_create_stream
    while True:
        result = ways[len(called) % 2](client, request | {"messages": messages})
        if not result["calls"]:
            return {"text": result["text"], "called": called}
        called += [call["name"] for call in result["calls"]]
        calls = [
            {"id": call.pop("id"), "type": "function", "function": call} for call in result["calls"]
        ]
        messages.append({"role": "assistant", "content": result["text"], "tool_calls": calls})
        for call in calls:
            output = {"role": "tool", "tool_call_id": call["id"], "content": "from-the-tool"}
            messages.append(output)


def chat_stream(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    with client.chat.completions.stream(**request) as stream:
        events = [event.type for event in stream]
        result = _chat_result(stream.get_final_completion())
    return {**result, "events": sorted(set(events))}


def _chat_result(completion: Any) -> dict[str, Any]:
    (choice,) = completion.choices
    message = choice.message
    return {
        "text": message.content or "",
        "reasoning": getattr(message, "reasoning_content", None) or "",
        "calls": [
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in message.tool_calls or []
        ],
        "finish_reason": choice.finish_reason,
    }


def responses_create(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    return _responses_result(client.responses.create(**request, stream=False))


def responses_create_stream(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    """As hand-written loops do it: text from deltas, calls from finished items."""
    result: dict[str, Any] = {"text": "", "reasoning": "", "calls": [], "status": None}
    for event in client.responses.create(**request, stream=True):
        if event.type == "response.output_text.delta":
            result["text"] += event.delta
        elif event.type == "response.reasoning_summary_text.delta":
            result["reasoning"] += event.delta
        elif event.type == "response.output_item.done" and event.item.type == "function_call":
            result["calls"].append(_call(event.item))
        elif event.type in {"response.completed", "response.incomplete", "response.failed"}:
            result["status"] = event.response.status
    return result


def responses_stream(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    with client.responses.stream(**request) as stream:
        events = [event.type for event in stream]
        return {**_responses_result(stream.get_final_response()), "events": events}


def responses_loop(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    """As the documentation shows it: what came back goes into the next input."""
    history: list[Any] = [{"role": "user", "content": request["input"]}]
    executed: list[str] = []
    while True:
        with client.responses.stream(**request | {"input": history}) as stream:
            response = stream.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return {"text": response.output_text, "executed": executed}
        history += response.output
        for call in calls:
            executed.append(json.loads(call.arguments)["command"])
            output = {"type": "function_call_output", "call_id": call.call_id}
            history.append({**output, "output": "from-the-tool"})


def responses_stored(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    """A conversation that the host keeps, and all that can be asked about its responses."""
    calling = client.responses.create(**request)
    previous, executed = calling, []
    while calls := [item for item in previous.output if item.type == "function_call"]:
        executed += [json.loads(call.arguments)["command"] for call in calls]
        outputs: Any = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "from-the-tool"}
            for call in calls
        ]
        further = request | {"input": outputs, "previous_response_id": previous.id}
        with client.responses.stream(**further) as stream:
            types = [event.type for event in stream]
            previous = stream.get_final_response()
    again = client.responses.retrieve(previous.id, stream=True)
    retrieved = client.responses.retrieve(previous.id)
    result = {
        "text": previous.output_text,
        "executed": executed,
        "retrieved": [item.id for item in retrieved.output] == [x.id for x in previous.output]
        and (retrieved.usage, retrieved.tools) == (previous.usage, previous.tools),
        "replayed": [event.type for event in again] == types,
        "items": [item.type for item in client.responses.input_items.list(previous.id, limit=1)],
    }
    try:
        client.responses.cancel(previous.id)
    except BadRequestError as error:
        result["cancelled"] = error.body and error.body["message"]  # type: ignore[index]
    client.responses.delete(previous.id)
    try:
        client.responses.create(**request, previous_response_id=previous.id)
    except BadRequestError as error:
        result["gone"] = [error.code, error.param]
    return result


def responses_submit(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    """The flow of the published description, for which the client has no method."""
    waiting = client.responses.create(
        **request, extra_headers={"x-dragoman-dialect": "codex"}
    ).to_dict()
    action: Any = waiting["required_action"]
    outputs = [
        {"tool_call_id": call["id"], "output": "from-the-tool"}
        for call in action["submit_tool_outputs"]["tool_calls"]
    ]
    path = f"/responses/{waiting['id']}/submit_tool_outputs"
    response = client.post(path, body={"tool_outputs": outputs}, cast_to=Response)
    return {
        "same": response.id == waiting["id"],
        "statuses": [waiting["status"], response.status],
        "text": response.output_text,
    }


class Answer(BaseModel):
    """Structured output: the reply must be the JSON of this class."""

    path: str
    lines: int


def responses_parse(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    parsed = client.responses.parse(**request, text_format=Answer).output_parsed
    assert parsed
    return {"parsed": parsed.model_dump()}


def responses_stream_parse(client: OpenAI, request: dict[str, Any]) -> dict[str, Any]:
    with client.responses.stream(**request, text_format=Answer) as stream:
        parsed = stream.get_final_response().output_parsed
    assert parsed
    return {"parsed": parsed.model_dump()}


def _responses_result(response: Any) -> dict[str, Any]:
    items = response.output
    summaries = [part for item in items if item.type == "reasoning" for part in item.summary]
    return {
        "text": response.output_text,
        "reasoning": "".join(part.text for part in summaries),
        "calls": [_call(item) for item in items if item.type == "function_call"],
        "status": response.status,
    }


def _call(item: Any) -> dict[str, Any]:
    return {"id": item.call_id, "name": item.name, "arguments": item.arguments}


JOBS: dict[str, Callable[[OpenAI, dict[str, Any]], dict[str, Any]]] = {
    "chat.create": chat_create,
    "chat.create stream": chat_create_stream,
    "chat.stream": chat_stream,
    "chat.loop": chat_loop,
    "responses.create": responses_create,
    "responses.create stream": responses_create_stream,
    "responses.stream": responses_stream,
    "responses.loop": responses_loop,
    "responses.parse": responses_parse,
    "responses.stream parse": responses_stream_parse,
    "responses.stored": responses_stored,
    "responses.submit": responses_submit,
}


def ask(how: str, base_url: str, request: Any) -> dict[str, Any]:
    job = how.removesuffix(RETRIES)
    retries = 0 if how == job else DEFAULT_MAX_RETRIES
    with OpenAI(
        base_url=base_url, api_key="sk-test", max_retries=retries, timeout=TIMEOUT
    ) as client:
        return JOBS[job](client, request)


def main() -> None:
    serve(ask)


if __name__ == "__main__":
    main()
