"""Items of the history that no chat upstream has, as text.

Tools that ran at a provider leave their calls and results in the conversation, which the model
needs to know; so each becomes one remark, without pictures and other data.  Of an item of an
unknown type, the text counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire.json_codec import NotJson, loads
from .content import json_text
from .images import LEFT_OUT, without_data, without_media
from .validation import RequestObject

HOSTED: Mapping[str, tuple[str, ...]] = {
    "web_search_call": ("action", "query", "queries", "results"),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt", "result"),
    "computer_call": ("action", "actions"),
    "computer_call_output": ("output",),
    "mcp_call": ("server_label", "name", "arguments", "output", "error"),
    "mcp_list_tools": ("server_label", "tools", "error"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
    "mcp_approval_response": ("approve", "reason"),
}
"""The items of hosted tools, and the fields of their requests and results."""
FROM_THE_CLIENT = ("computer_call_output", "mcp_approval_response")
"""Items that answer the model; the others are its own."""
LOST_CONTEXT = "[What was said before was compacted by another provider, and cannot be read here.]"


def remark(kind: str, item: RequestObject) -> str:
    """The request and result of a hosted tool; empty if the item has none."""
    fields = []
    for name in HOSTED[kind]:
        value = item.get(name)
        if name == "tools" and isinstance(value, list):
            value = [tool.get("name") for tool in value if isinstance(tool, dict)]
        if value is None or value in ("", [], {}):
            continue
        picture = kind == "image_generation_call" and name == "result"
        fields.append(f"{name}: {LEFT_OUT if picture else _field_text(value)}")
    return f"[{kind}: {', '.join(fields)}]" if fields else ""


def _field_text(value: Any) -> str:
    """A field as text; strings may be JSON themselves, and hold pictures."""
    if not isinstance(value, str):
        return without_data(json_text(without_media(value)))
    if value.startswith(("[", "{")):
        try:
            inner = loads(value)
        except NotJson:
            inner = None
        if (kept := without_media(inner)) != inner:
            value = json_text(kept)
    return without_data(value)
