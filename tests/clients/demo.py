"""The client of `make demo`: an ordinary program that knows of no proxy."""

import json
import sys
from pathlib import Path

api, base_url, request_file = sys.argv[1:]
# Each takes a second to import, or two: only the one that is needed.
if api == "messages":
    from anthropic import Anthropic

    anthropic = Anthropic(base_url=base_url.removesuffix("/v1"), auth_token="none")
else:
    from openai import OpenAI

    client = OpenAI(base_url=base_url, api_key="none")
request = json.loads(Path(request_file).read_text())
question = request["messages"][-1]["content"]

if api == "chat":
    for chunk in client.chat.completions.create(**request):
        for choice in chunk.choices:
            print("   ", choice.delta.model_dump_json(exclude_unset=True))
            if choice.finish_reason:
                print("    finish_reason:", choice.finish_reason)
elif api == "messages":
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        for tool in request["tools"]
    ]
    for event in anthropic.messages.create(
        model=request["model"],
        max_tokens=4096,
        messages=[{"role": "user", "content": question}],
        tools=tools,
        stream=True,
    ):
        print("   ", event.model_dump_json(exclude_none=True))
else:
    tools = [{"type": "function", **tool["function"]} for tool in request["tools"]]
    events = client.responses.create(
        model=request["model"], input=question, tools=tools, stream=True
    )
    for event in events:
        print(f"    {event.type:40} {getattr(event, 'delta', '')}".rstrip())
        if event.type == "response.output_item.done":
            print("       ", event.item.model_dump_json(exclude_unset=True))
