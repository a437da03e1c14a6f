"""The ids of calls in requests to native Responses hosts."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.bridge.cure.chat_request import cure_request
from dragoman.bridge.cure.tool_names import ToolNames
from dragoman.bridge.host_requirements import family_of
from dragoman.bridge.request.convert import convert_request
from dragoman.bridge.request_calls import rename_calls
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools

from .converting import drained

Json = dict[str, Any]
KIMI = family_of("kimi-k2.7")


def call(call_id: str, name: str = "bash", **more: Any) -> Json:
    arguments = {"type": "function_call", "name": name, "arguments": "{}"}
    return {**arguments, "call_id": call_id, **more}


def output(call_id: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": "ok"}


def renamed(model: str, items: list[Json], **more: Any) -> list[str]:
    request = {"model": model, "input": items, **more}
    return [
        item["call_id"] for item in rename_calls(request, ToolNames(KIMI, Evidence()))[0]["input"]
    ]


TURNS = [
    *(call("call_a"), call("fc_b", "read", namespace="files"), output("fc_b"), output("call_a")),
    *(call("call_c"), output("call_c"), output("unknown")),
]


@pytest.mark.parametrize(
    ("model", "ids"),
    [
        (
            "moonshotai/Kimi-K2.7",
            [
                *("functions.bash:0", "functions.files__read:1", "functions.files__read:1"),
                *("functions.bash:0", "functions.bash:2", "functions.bash:2", "unknown"),
            ],
        ),
        (
            "kimi-k3",
            ["bash:0", "files__read:1", "files__read:1", "bash:0", "bash:0", "bash:0", "unknown"],
        ),
        ("deepseek-v4", [item["call_id"] for item in TURNS]),
    ],
)
def test_calls_and_their_outputs_get_the_ids_of_the_family(model: str, ids: list[str]) -> None:
    assert renamed(model, TURNS) == ids
    # A later turn begins with the same ids.
    assert renamed(model, [*TURNS, call("call_d"), output("call_d")])[: len(ids)] == ids


def test_an_odd_id_stays_and_so_does_that_of_an_odd_type() -> None:
    odd: list[Any] = [["call_a"], {}, 1, None]
    items = [call("call_a"), *({**output("call_a"), "call_id": each} for each in odd)]
    assert renamed("kimi-k2.7", items) == ["functions.bash:0", *odd]
    items = [{**output("call_a"), "type": each} for each in odd]
    assert renamed("kimi-k2.7", items) == ["call_a"] * 4


def test_what_needs_no_other_ids_is_the_same_object() -> None:
    items = [call("functions.bash:0"), output("functions.bash:0"), {"type": "message"}, "odd"]
    own = [call("functions.bash:3"), output("functions.bash:3"), call("functions.bash:7")]
    for request in (
        {"model": "kimi-k2.7", "input": items},
        {"model": "kimi-k2.7", "input": own},
        {"model": "kimi-k2.7", "input": "Hello"},
        {"model": "kimi-k2.7", "input": TURNS, "previous_response_id": "resp_1"},
        {"model": 1, "input": TURNS},
    ):
        same, changed = rename_calls(request, ToolNames(KIMI, Evidence()))
        assert same is request
        assert changed == 0
    names = ToolNames(KIMI, Evidence())
    assert rename_calls({"model": "kimi-k2.7", "input": TURNS}, names)[1] == 3


def test_an_id_of_the_models_own_stays_and_no_other_call_gets_it() -> None:
    mixed = [call("call_a"), call("functions.bash:2"), call("call_b"), call("functions.read:4")]
    again = [call("functions.bash:2"), output("functions.bash:2")]
    ids = [f"functions.bash:{number}" for number in (0, 2, 3, 4, 5, 5)]
    assert renamed("kimi-k2.7", [*mixed, *again]) == ids
    turns = [call("bash:1"), call("call_a"), output("bash:1"), call("bash:1")]
    assert renamed("kimi-k3", turns) == ["bash:1", "bash:2", "bash:1", "bash:1"]


FUNCTIONS = [{"type": "function", "name": name, "parameters": {}} for name in ("bash", "read")]


@pytest.mark.parametrize("api", ["chat", "bridge", "native"])
def test_an_id_of_the_clients_still_names_the_tool_of_its_call(api: str) -> None:
    items = [call("call_1"), call("call_2", "read"), call("call_3"), call("call_3", "read")]
    items += [output(f"call_{number}") for number in (1, 2, 3)]
    if api == "bridge":
        request = {"model": "kimi-k2.7", "tools": FUNCTIONS, "input": items}
        conversion = drained(convert_request(request, unsupported="drop", evidence=Evidence()))
        tools = conversion.declared()
    elif api == "native":
        names = ToolNames(KIMI, Evidence())
        rename_calls({"model": "kimi-k2.7", "input": items}, names)
        tools = names.with_aliases(DeclaredTools({"bash": {}, "read": {}}))
    else:
        calls = [
            {"id": item["call_id"], "function": {"name": item["name"], "arguments": "{}"}}
            for item in items
            if "name" in item
        ]
        messages = [{"role": "assistant", "content": None, "tool_calls": calls}]
        functions = [{"type": "function", "function": each} for each in FUNCTIONS]
        chat = {"model": "kimi-k2.7", "tools": functions, "messages": messages}
        cured = drained(cure_request(chat, KIMI.bridged, Evidence()))
        tools = cured.tool_names.with_aliases(DeclaredTools.of_request(cured.request))
    ids = ("call_1", "call_2", "call_3", "functions.bash:0", "functions.read:1", "call_4")
    names_of = [tools.called.get(call_id) or None for call_id in ids]
    assert names_of == [
        "bash",
        "read",
        None,
        *(("bash", "read") if api != "native" else (None, None)),
        None,
    ]
