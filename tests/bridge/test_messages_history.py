"""The messages of a Messages request as chat messages, block by block."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.wire.json_codec import dumps

from .converting import Converted, Json, answer, chat_call, of_messages, roles

PNG = "data:image/png;base64,QUFB"
IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "QUFB"},
}
PICTURE: Json = {"type": "image_url", "image_url": {"url": PNG}}
BILLING = "x-anthropic-billing-header: cc_version=2.1.330.abc; cc_entrypoint=cli; cch=12345;"


def text(value: str, **fields: Any) -> Json:
    return {"type": "text", "text": value, **fields}


def user(*content: Any) -> Json:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else [*content]}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": [*blocks]}


def system(*content: Any) -> Json:
    return {**user(*content), "role": "system"}


def call(call_id: str, name: str = "run", given: Any = None) -> Json:
    return {
        "type": "tool_use",
        "id": call_id,
        "name": name,
        "input": {} if given is None else given,
    }


def result(call_id: str, *content: Any, **fields: Any) -> Json:
    value = content[0] if content and isinstance(content[0], str) else [*content]
    return {"type": "tool_result", "tool_use_id": call_id, "content": value, **fields}


def reminder(value: str) -> str:
    return f"<system-reminder>\n{value}\n</system-reminder>"


HI = user("hi")
RUN = assistant(call("a"))
RAN = {"role": "assistant", "content": "", "tool_calls": [chat_call("a")]}


def after(*messages: Json, **fields: Any) -> list[Json]:
    """The chat messages after the first, which is the user's."""
    return of_messages(HI, *messages, **fields).messages[1:]


def output_of(*content: Any, **fields: Any) -> Any:
    """The content of a tool's message."""
    return after(RUN, user(result("a", *content, **fields)))[1]["content"]


# The system


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("One.", "One."),
        ([text("One."), text("Two.", cache_control={"type": "ephemeral"})], "One.\n\nTwo."),
        ([text(BILLING), text("One.")], "One."),
        ([text("One."), text(BILLING), text("Two.")], "One.\n\nTwo."),
        (f"{BILLING}\nOne.", "One."),
    ],
)
def test_the_system_is_one_message_without_the_billing_header(given: Any, expected: str) -> None:
    made = of_messages(HI, system=given)
    assert made.messages == [{"role": "system", "content": expected}, HI]


@pytest.mark.parametrize("given", [None, "", [], [text(BILLING)]])
def test_nothing_makes_no_system_message(given: Any) -> None:
    assert of_messages(HI, system=given).messages == [HI]


def test_what_the_system_says_before_all_others_is_in_its_one_message() -> None:
    made = of_messages(system("Two."), HI, system="One.")
    assert made.messages == [{"role": "system", "content": "One.\n\nTwo."}, HI]


# Reminders


@pytest.mark.parametrize("given", [system("R"), system(text("R", cache_control={}))])
def test_a_reminder_stays_in_place_as_the_users(given: Json) -> None:
    made = of_messages(HI, given, assistant(text("Yes.")), user("more"), system=[text("S")])
    assert [each["content"] for each in made.messages] == ["S", "hi", reminder("R"), "Yes.", "more"]
    assert roles(made.messages) == ["system", "user", "user", "assistant", "user"]


def test_a_reminder_after_results_joins_the_last_in_the_order_of_the_calls() -> None:
    calls = assistant(call("a"), call("b"))
    results = user(result("b", "B"), result("a", "A"))
    made = after(calls, results, system("R"), system("S"))
    assert made[1:] == [answer("a", "A"), answer("b", f"B\n\n{reminder('R')}\n\n{reminder('S')}")]


def test_a_reminder_between_calls_and_results_is_sent_after_them() -> None:
    made = after(RUN, system("R"), user(result("a", "A")))
    assert made == [RAN, answer("a", f"A\n\n{reminder('R')}")]


def test_a_reminder_after_the_users_words_is_sent_after_these() -> None:
    made = after(RUN, user(result("a", "A"), text("more")), system("R"))
    assert made[1:] == [answer("a", "A"), user("more"), user(reminder("R"))]


def test_a_reminder_after_an_empty_reply_is_not_in_the_turn_before() -> None:
    before = [RUN, user(result("a", "A"))]
    for empty in (text(""), {"type": "thinking", "thinking": "T", "signature": ""}):
        made = after(*before, assistant(empty), system("R"))
        assert made == [*after(*before), user(reminder("R"))]


# The user's blocks


@pytest.mark.parametrize("given", ["x", [text("x", cache_control={"type": "ephemeral"})]])
def test_a_string_and_a_block_give_the_same_bytes(given: Any) -> None:
    made = of_messages({"role": "user", "content": given})
    assert dumps(made.messages) == b'[{"role":"user","content":"x"}]'


def test_empty_texts_are_left_out() -> None:
    assert of_messages(user(text(""), text("x"), text(""))).messages == [user("x")]


def test_an_image_is_a_part_beside_the_text() -> None:
    far = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    content = of_messages(user(text("See"), IMAGE, far)).messages[0]["content"]
    url = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert content == [text("See"), PICTURE, url]


def test_an_image_that_anthropic_keeps_is_a_line() -> None:
    kept = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    made = of_messages(user(text("See"), kept))
    assert made.messages[0]["content"].startswith("See\n[An image was left out:")
    assert made.notes == ["left out an image that Anthropic keeps"]


def test_a_documents_text_is_sent() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "The text."}
    (message,) = of_messages(user({"type": "document", "source": source, "title": "T"})).messages
    assert "The text." in message["content"]
    assert "T" in message["content"]


def test_a_pdf_is_a_line_that_says_what_to_do() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    content = output_of(text("PDF file read: a.pdf"), {"type": "document", "source": source})
    assert content.startswith("PDF file read: a.pdf\n[document: ")
    assert "left out" in content
    assert "JVBERi0" not in content


def test_results_of_a_search_are_texts_with_their_addresses() -> None:
    found = {
        "type": "search_result",
        "source": "https://a.org",
        "title": "A",
        "content": [text("B")],
    }
    content = output_of(found)
    assert all(each in content for each in ("https://a.org", "A", "B"))


# Results


def test_results_are_in_the_order_of_their_calls_and_then_the_users_words() -> None:
    calls = assistant(call("a"), call("b"), call("c"))
    answers = user(
        text("first"), result("c", "C"), result("a", "A"), text("more"), result("b", "B")
    )
    made = after(calls, answers)
    assert made[1:] == [answer("a", "A"), answer("b", "B"), answer("c", "C"), user("first\nmore")]


def test_a_missing_result_has_a_line() -> None:
    made = after(assistant(call("a"), call("b")), user(result("b", "B")))
    assert made[1]["content"] == "No output of this call was recorded."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (["text"], "text"),
        ([text("one"), text("two")], "one\ntwo"),
        ([], ""),
        ([text("")], ""),
        ([{"type": "tool_reference", "tool_name": "CronList"}], "Loaded: CronList"),
    ],
)
def test_a_result_is_its_text(content: list[Any], expected: str) -> None:
    assert output_of(*content) == expected


def test_an_empty_result_is_a_blank_where_hosts_refuse_empty_texts() -> None:
    made = of_messages(HI, RUN, user(result("a")), model="kimi-k2.5")
    assert made.messages[2]["content"] == " "


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Exit code 3", "Error: Exit code 3"),
        ("The error is in line 3", "Error: The error is in line 3"),
        ("Error: no such file", "Error: no such file"),
        ("error: no such file", "error: no such file"),
        ("InputValidationError: x", "InputValidationError: x"),
        (
            "<tool_use_error>No such tool</tool_use_error>",
            "<tool_use_error>No such tool</tool_use_error>",
        ),
        ("[Error] x", "[Error] x"),
    ],
)
def test_a_failure_says_so_once(said: str, expected: str) -> None:
    assert output_of(said, is_error=True) == expected
    assert output_of(text(said), is_error=True) == expected
    assert output_of(said, is_error=False) == said


def test_images_of_results_are_in_a_users_message_after_all_results() -> None:
    calls = assistant(call("a", "Read"), call("b"))
    results = user(result("b", "B"), result("a", text("See"), IMAGE, text("end")), text("more"))
    made = after(calls, results, system("R"))
    assert made[1:] == [
        answer("a", "See\n[image follows]\nend"),
        answer("b", "B"),
        {"role": "user", "content": [text("[Returned by Read:]"), PICTURE]},
        user("more"),
        user(reminder("R")),
    ]


# The assistant's blocks


def thought(value: str, **fields: Any) -> Json:
    return {"type": "thinking", "thinking": value, "signature": "s", **fields}


def test_thoughts_of_any_signature_are_sent_joined_with_the_calls() -> None:
    blocks = [thought("One."), text("I look."), thought("Two.", signature=""), call("a")]
    (message, _) = after(assistant(*blocks), user(result("a", "A")), model="glm-5")
    assert message["reasoning_content"] == "One.\n\nTwo."
    assert message["content"] == "I look."
    assert len(message["tool_calls"]) == 1


def test_encrypted_thoughts_are_left_out_and_count_as_missing() -> None:
    secret = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    made = of_messages(HI, assistant(secret, call("a")), user(result("a", "A")), model="kimi-k2.5")
    assert made.messages[1]["reasoning_content"] == " "
    assert "left out encrypted thoughts" in made.notes


def test_a_text_after_calls_is_before_them_in_the_one_message() -> None:
    made = of_messages(HI, assistant(call("a"), text("I wait.")), user(result("a", "A")))
    assert made.messages[1] == {**RAN, "content": "I wait."}
    assert made.notes == ["moved before the calls a text"]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"b": 1, "a": "é"}, '{"b":1,"a":"é"}'),
        ({}, "{}"),
        ({"__unparsedToolInput": {"raw": '{"a', "len": 3}}, '{"invalid_arguments":"{\\"a"}'),
        ("half", '{"invalid_arguments":"half"}'),
    ],
)
def test_arguments_are_the_text_of_an_object(given: Any, arguments: str) -> None:
    made = after(assistant(call("a", given=given)), user(result("a", "A")))
    assert made[0]["tool_calls"][0]["function"]["arguments"] == arguments


def test_call_ids_are_the_familys() -> None:
    turns = [assistant(call("toolu_1", "Bash")), user(result("toolu_1", "A"))]
    turns += [assistant(call("toolu_2", "Bash")), user(result("toolu_2", "B"))]
    made = of_messages(HI, *turns, model="kimi-k2-0905").messages
    assert [each.get("tool_call_id") for each in made if each["role"] == "tool"] == [
        "functions.Bash:0",
        "functions.Bash:1",
    ]


def test_what_anthropics_servers_did_is_told_in_the_assistants_message() -> None:
    found = {"type": "web_search_result", "title": "A", "url": "https://a.org"}
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "tea"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [found]},
        text("It is tea."),
    ]
    message = after(assistant(*blocks))[0]
    assert all(each in message["content"] for each in ("tea", "https://a.org", "It is tea."))


# What a family needs


@pytest.mark.parametrize("model", ["deepseek-v4", "zai-org/glm-5.2", "openai/gpt-oss-120b"])
def test_a_model_that_reads_no_images_has_a_line_in_their_place(model: str) -> None:
    made = of_messages(user(text("See"), IMAGE), RUN, user(result("a", IMAGE)), model=model)
    line = "[An image was left out: this model reads no images.]"
    assert made.messages[0] == user(f"See\n{line}")
    assert made.messages[2]["content"] == line
    assert any(note.startswith("left out an image") for note in made.notes)


@pytest.mark.parametrize("model", ["glm-4.6v", "kimi-k2.5", "some-model"])
def test_other_models_have_their_images(model: str) -> None:
    assert of_messages(user(IMAGE), model=model).messages[0]["content"] == [PICTURE]


MISTRAL = "mistralai/devstral-medium"


def test_turns_alternate_for_mistral() -> None:
    answers = user(result("a", IMAGE), text("more"))
    made = of_messages(HI, system("R"), RUN, answers, system("S"), model=MISTRAL).messages
    assert roles(made) == ["user", "assistant", "tool", "assistant", "user"]
    assert made[0]["content"] == f"hi\n\n{reminder('R')}"
    assert made[3]["content"] == "Understood."
    parts = [text("[Returned by run:]"), PICTURE, text("more"), text(reminder("S"))]
    assert made[4]["content"] == parts


def test_mistral_has_call_ids_of_nine_and_no_thoughts() -> None:
    turn = [assistant(thought("T"), call("toolu_1")), user(result("toolu_1", "A"))]
    made = of_messages(HI, *turn, *turn, model=MISTRAL).messages
    ids = [each["tool_call_id"] for each in made if each["role"] == "tool"]
    assert ids == ["000000000", "000000001"]
    assert not any("reasoning_content" in each for each in made)


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("kimi-k2.5", {"role": "assistant", "content": "{", "partial": True}),
        (MISTRAL, {"role": "assistant", "content": "{", "prefix": True}),
    ],
)
def test_an_answer_that_is_begun_is_continued_in_the_familys_words(model: str, last: Json) -> None:
    assert of_messages(HI, assistant(text("{")), model=model).messages[-1] == last


def test_an_answer_that_is_begun_is_continued_at_the_users_word_by_others() -> None:
    made = after(assistant(text("{")))
    assert made[0] == {"role": "assistant", "content": "{"}
    assert made[1]["role"] == "user"
    assert made[1]["content"].startswith("Continue your last message")


@pytest.mark.parametrize("model", ["kimi-k2.5", "deepseek-v4"])
def test_a_call_without_thoughts_has_the_least_that_the_family_takes(model: str) -> None:
    made: Converted = of_messages(HI, RUN, user(result("a", "A")), model=model)
    assert made.messages[1]["reasoning_content"] == ("" if model == "deepseek-v4" else " ")
