"""System and developer messages where a model takes one, at the start."""

from __future__ import annotations

import pytest

from .converting import Json, call, converted, image, of_input, output, said, user

STRICT = pytest.mark.parametrize("model", ["MiniMaxAI/MiniMax-M2.5", "qwen3.6:27b", "qwen-max"])


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def developer(text: str) -> Json:
    return {"type": "message", "role": "developer", "content": text}


@STRICT
def test_what_stands_at_the_start_is_one_message(model: str) -> None:
    items = [developer("two"), system("three"), user("x"), said("y")]
    made = converted({"model": model, "instructions": "one", "input": items})
    assert made.messages == [
        {"role": "system", "content": "one\n\ntwo\n\nthree"},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y"},
    ]
    assert "joined to the one at the start a developer message" in made.notes


@STRICT
def test_what_comes_later_is_sent_in_its_place_as_a_users_message(model: str) -> None:
    made = of_input(
        developer("be"), user("x"), developer("brief"), said("y"), system("now"), model=model
    )
    assert made.messages == [
        {"role": "system", "content": "be"},
        {"role": "user", "content": "x"},
        {"role": "user", "content": "[Message of the developer:]\nbrief"},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "[Message of the system:]\nnow"},
    ]
    assert "made a user message of a developer message" in made.notes


@STRICT
@pytest.mark.parametrize(
    "first", [user("x"), said("x"), call("a"), output("a", "A"), {"type": "mcp_call", "name": "n"}]
)
def test_after_anything_else_it_is_later(model: str, first: Json) -> None:
    messages = of_input(first, developer("d"), model=model).messages
    assert "system" not in [message["role"] for message in messages]
    assert messages[-1]["content"].endswith("[Message of the developer:]\nd")


@STRICT
def test_between_a_call_and_its_output_it_moves_behind_the_output(model: str) -> None:
    made = of_input(user("x"), call("a"), developer("d"), output("a", "A"), model=model)
    assert [message["role"] for message in made.messages] == ["user", "assistant", "tool", "user"]


def test_other_models_get_them_as_they_are() -> None:
    made = of_input(developer("a"), system("b"), user("x"), developer("c"))
    assert [message["role"] for message in made.messages] == ["system", "system", "user", "system"]
    assert made.notes == []


@pytest.mark.parametrize("model", ["some-model", "qwen3-max", "kimi-k3"])
@pytest.mark.parametrize("role", ["system", "developer"])
def test_an_image_of_a_developer_message_is_the_users(model: str, role: str) -> None:
    parts = [{"type": "input_text", "text": "See this."}, image("data:image/png;base64,AA==")]
    made = of_input({"role": role, "content": parts}, user("x"), model=model)
    assert made.messages == [
        {"role": "system", "content": "See this."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": f"[Sent by the {role}:]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        },
        {"role": "user", "content": "x"},
    ]
    assert f"moved to a user message media of a {role} message" in made.notes


def test_an_image_alone_and_one_out_of_reach() -> None:
    alone = of_input({"role": "developer", "content": [image("data:image/png;base64,AA==")]})
    assert [message["role"] for message in alone.messages] == ["user"]
    content = [{"type": "input_image", "file_id": "f"}, {"type": "text", "text": "t"}]
    made = of_input({"role": "developer", "content": content})
    assert made.messages == [{"role": "system", "content": "t"}]
    assert "dropped part input_image of a text-only message" in made.notes
