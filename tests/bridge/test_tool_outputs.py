"""Images that tools return reach the model as images; base64 is never text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .converting import Converted, Json, call, image, of_input, output, user

DATA = "iVBORw0KGgo" * 60
URL = f"data:image/png;base64,{DATA}"
MCP = {"type": "image", "data": DATA, "mimeType": "image/png"}
TEXT = {"type": "text", "text": "seen"}
ANTHROPIC = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": DATA},
}
RESOURCE = {
    "type": "resource",
    "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": DATA},
}
IMAGES: list[Json] = [
    image(URL),
    image(URL, detail="high"),
    {"type": "image_url", "image_url": {"url": URL}},
    MCP,
    MCP | {"annotations": {"audience": ["user"]}},
    {"type": "image", "image_url": URL},
    {"type": "image", "url": URL},
    {"type": "image", "data": DATA},
    {"type": "media", "data": DATA, "mediaType": "image/png"},
    {"mimeType": "image/png", "data": DATA},
    {"image_url": URL},
    {"inlineData": {"mimeType": "image/png", "data": DATA}},
    {"type": "image_base64", "data": DATA},
    ANTHROPIC,
    RESOURCE,
]
KINDS = ["function_call_output", "custom_tool_call_output", "local_shell_call_output"]


def returned(value: Any, kind: str = "function_call_output") -> Converted:
    made = of_input(user("x"), call("a", "shot"), output("a", value, kind))
    assert made.messages[2]["role"] == "tool"
    return made


def images_of(messages: list[Json]) -> list[Any]:
    """The images of the message after the tool's."""
    (sent,) = messages[3:]
    assert sent["role"] == "user"
    head, *parts = sent["content"]
    assert head == {"type": "text", "text": "[Returned by shot:]"}
    return [part["image_url"]["url"] for part in parts]


@pytest.mark.parametrize("part", IMAGES, ids="-".join)
@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        (lambda part: [part], "The output is in the next user message."),
        (lambda part: part, "The output is in the next user message."),
        (lambda part: [TEXT, part], "seen"),
        (lambda part: {"content": [TEXT, part]}, "seen"),
        (lambda part: {"content": [part], "isError": False}, None),
        (lambda part: {"content": part}, None),
    ],
)
def test_an_image_of_any_form_reaches_the_model(part: Json, wrap: Any, text: str | None) -> None:
    """As a value, and as its JSON text."""
    for value in (wrap(part), json.dumps(wrap(part), indent=1)):
        made = returned(value)
        assert images_of(made.messages) == [URL]
        content = made.messages[2]["content"]
        assert content == (text or "The output is in the next user message.")
        assert "moved to a user message media of tool outputs" in made.notes


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_reaches_the_model_from_outputs_of_any_kind(kind: str) -> None:
    for value in ([TEXT, MCP], json.dumps([TEXT, MCP])):
        assert images_of(returned(value, kind).messages) == [URL]


def test_a_data_url_alone_is_an_image() -> None:
    assert images_of(returned(f" {URL}\n").messages) == [URL]


def test_an_output_under_content() -> None:
    item = {"type": "function_call_output", "call_id": "a", "content": [TEXT, MCP]}
    made = of_input(user("x"), call("a", "shot"), item)
    assert images_of(made.messages) == [URL]
    assert made.messages[2]["content"] == "seen"


def test_what_else_a_result_says_is_told_beside_its_image() -> None:
    made = returned({"content": [TEXT, MCP], "isError": True, "structuredContent": {"n": 1}})
    assert images_of(made.messages) == [URL]
    content = made.messages[2]["content"]
    assert content == 'seen\n{"isError":true,"structuredContent":{"n":1}}'


@pytest.mark.parametrize(
    "text",
    [
        DATA,
        f"see {URL}",
        f"{URL} {URL}",
        json.dumps({"screenshot": URL, "n": 1}),
        json.dumps([{"name": "a", "image_url": URL}]),
        json.dumps([TEXT]),
        json.dumps({"content": [TEXT]}),
        json.dumps({"type": "image", "url": "https://example.invalid/a.png"}),
        json.dumps([{"type": "doc", "content": [{"type": "image", "data": 1}]}]),
        json.dumps([{"type": "x", "b64_json": "A" + " " * 60_000 + "!"}]),
        "[image",
        '{"image": ' * 200,
        "data:image/png;base64,é",
        "<img src='data:image/png;base64,AAAA'>",
    ],
)
def test_a_string_that_is_no_image_is_the_tools_own_text(text: str) -> None:
    made = returned(text)
    assert made.messages[2]["content"] == text
    assert len(made.messages) == 3


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "input_audio", "data": DATA, "format": "wav"}, TEXT],
        [{"type": "audio", "data": DATA, "mimeType": "audio/wav"}],
        {"type": "resource", "resource": {"uri": "a", "blob": DATA}},
        {"deep": {"screenshot": URL}},
        {"deep": {"lines": (DATA[:76] + "\n") * 10}},
        [1, {"x": URL}],
        {"content": [MCP], "structuredContent": {"same": URL}},
    ],
)
def test_data_of_another_kind_is_left_out_and_recorded(value: Any) -> None:
    made = returned(value)
    assert DATA[:76] not in made.messages[2]["content"]
    assert "(data left out)" in made.messages[2]["content"]
    assert "left out data in a tool output" in made.notes


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}],
        [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": 1}}],
        [{"type": "resource", "resource": {"uri": "a", "blob": "UklGRg=="}}],
        {"found": [{"b64_json": "UklGRg=="}]},
    ],
)
def test_short_data_is_known_by_the_fields_beside_it(value: Any) -> None:
    content = returned(value).messages[2]["content"]
    assert "UklGRg" not in content and "(data left out)" in content


@pytest.mark.parametrize("wrap", [lambda part: [TEXT, part], lambda part: {"content": [part]}])
@pytest.mark.parametrize(
    "part",
    [
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "input_audio", "audio_url": "data:audio/wav;base64,UklGRg=="},
    ],
)
def test_audio_is_no_text_though_a_string_holds_it(part: Json, wrap: Any) -> None:
    made = returned(json.dumps(wrap(part)))
    assert "UklGRg" not in json.dumps(made.messages)
    assert any(note.startswith("left out") for note in made.notes)


SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


@pytest.mark.parametrize("wrap", [lambda part: part, json.dumps, lambda part: {"content": part}])
@pytest.mark.parametrize("output_type", ["function_call_output", "custom_tool_call_output"])
def test_audio_of_a_tool_is_one_line_that_says_what_was_left_out(
    wrap: Any, output_type: str
) -> None:
    content = wrap([TEXT, SOUND, {"type": "input_text", "text": "after"}])
    made = of_input(user("x"), call("a", "listen"), output("a", content, output_type))
    assert len(made.messages) == 3  # no message of the user's with it
    before, line, after = made.messages[2]["content"].split("\n")
    assert (before, after) == (TEXT["text"], "after")
    assert line == "[Audio was left out: it cannot be sent from here.]"
    assert "left out part input_audio" in made.notes


def test_a_field_that_is_called_data_is_no_data_for_that() -> None:
    value = {"data": "internationalization", "n": [{"format": "csv", "data": "a,b\n1,2"}]}
    assert json.loads(returned(value).messages[2]["content"]) == value


def test_what_a_shell_printed_is_its_own_text() -> None:
    printed = {"stdout": DATA, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    shell = {"type": "shell_call", "call_id": "a", "action": {"commands": ["base64 a"]}}
    made = of_input(user("x"), shell, output("a", [printed, printed], "shell_call_output"))
    lines = made.messages[2]["content"].split("\n")
    assert [json.loads(line) for line in lines] == [printed, printed]


@pytest.mark.parametrize("part", IMAGES)
def test_the_same_output_gives_the_same_messages_in_every_turn(part: Json) -> None:
    items = [user("x"), call("a", "shot"), output("a", json.dumps({"content": [TEXT, part]}))]
    first = of_input(*items).messages
    assert of_input(*items, user("y")).messages[: len(first)] == first
