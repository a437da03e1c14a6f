"""A server of the Model Context Protocol for agents, over standard input: one tool."""

from __future__ import annotations

import json
import sys
from typing import Any

MINUTES = {"type": "object", "properties": {"minutes": {"type": "integer"}}}
TOOL = {"name": "brew", "description": "Brews tea.", "inputSchema": MINUTES}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        server = {"serverInfo": {"name": "tea", "version": "1"}, "capabilities": {"tools": {}}}
        return {"protocolVersion": params["protocolVersion"], **server}
    if method == "tools/call":
        brewed = f"brewed for {params['arguments'].get('minutes')} minutes"
        return {"content": [{"type": "text", "text": brewed}]}
    return {"tools": [TOOL]} if method == "tools/list" else {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
