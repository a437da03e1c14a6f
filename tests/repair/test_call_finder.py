"""Where a marker begins a call, is text, or is taken out, as tables by model; however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.call_rule import rules_for
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.formats_by_family import AUTO
from dragoman.repair.scanner import Scanner
from tests.repair.formats.test_all_formats import CALLS, LS, MEANT, QUOTING, by_lines
from tests.repair.formats.turns import REQUEST, gist
from tests.repair.streams import chunk, read, repair, sse
from tests.repair.turns import cut

MODELS = {
    "kimi_k2": "kimi-k2.5",
    "kimi_k3": "moonshotai/kimi-k3",
    "dsml": "deepseek-v4",
    "deepseek": "deepseek-r1",
    "hermes": "qwen2.5-72b",
    "qwen": "qwen3-coder",
    "glm": "glm-5",
    "claude": "anthropic/claude-opus-5",
    "minimax_m2": "minimax-m2",
    "minimax_m3": "minimax-m3",
    "harmony": "gpt-oss-20b",
    "mistral": "mistral-large",
    "nemotron": "nvidia/nemotron-nano",
    "llama": "llama-3.3-70b",
    "granite": "granite-4",
    "doubao": "doubao-1.5-pro",
    "tools": "qwen2.5-7b",
    "minimax_text": "minimax-m2.7",
    "gemma": "google/gemma-4-31b-it",
    "lfm2": "LiquidAI/LFM2.5-8B",
    "calling_tool": "my-gemma",
    "hunyuan": "tencent/hunyuan-3",
    "function": "openbmb/minicpm5",
    "atem": "meta/muse-spark",
    "step": "stepfun/step-3",
    "longcat": "meituan/longcat-flash",
    "gigachat": "gigachat-3",
    "cohere": "cohere/command-a",
    "internlm": "internlm3",
    "apertus": "swiss-ai/apertus-70b",
    "iquest": "iquest-coder",
    "xai": "x-ai/grok-code-fast-1",
    "tool_request": "some-local-model",
    "solar": "solar-open2-100b",
    "plamo": "plamo-3-8b",
    "k2_horizon": "llm360/horizon",
    "content_invoke": "a-model",
    "function_call": "granite-20b",
    "tool_calls": "minimax-m1",
    "python": "olmo-3",
}


def read_by(model: str, pieces: list[str]) -> str:
    """What comes of a text of this model, in short."""
    tools = DeclaredTools.of_request(REQUEST | {"model": model})
    scanner = Scanner(tools, rules_for(tools, ""), AUTO.looked_for(model))
    events = [event for piece in pieces for event in scanner.feed(piece)]
    return gist(events + scanner.close()).replace(": ", ":")


def at_sizes(model: str, text: str) -> str:
    """The same whole and in small pieces, which change nothing."""
    (out,) = {
        read_by(model, [text[at : at + size] for at in range(0, len(text), size)])
        for size in (len(text), 2)
    }
    return out


@pytest.mark.parametrize("name", CALLS)
def test_every_model_but_a_vendors_own_may_write_each_format(name: str) -> None:
    call = "So. " + CALLS[name].replace("¦", "")
    for model in ("kimi-k2.6", "qwen3-coder", "glm-5.2", "hermes-4-70b", "deepseek-v4", "a-model"):
        assert at_sizes(model, call) == f"So. {MEANT}".replace(": ", ":")
    for model in ("gpt-5.5", "gemini-3-pro", "claude-5" if name == "xai" else "grok-5"):
        assert at_sizes(model, call) == call.replace(": ", ":")


@pytest.mark.parametrize("name", CALLS)
def test_a_name_that_differs_in_case_only_is_that_of_the_declared_tool(name: str) -> None:
    call = "So. " + CALLS[name].replace("¦", "").replace("bash", "Bash")
    assert at_sizes(MODELS[name], call) == f"So. {MEANT}".replace(": ", ":")


TEXT, CALL, LAST = "text", "call", "a call of Kimi's, as the text ends with it"
QUOTED = {
    # Inline code is closed by a run of the same length in its line, or is none.
    "I check the `foo function: {}": CALL,
    "I check the `foo function: {} Done.": CALL,
    "I check the `foo function: {}\nDone.": CALL,
    "I check ``the `foo` function: {}\nand `more`": CALL,
    "a ``{}` b": CALL,
    "the `foo function: {}{}": CALL,
    "`x` {} `y`": CALL,
    "a `{}` b": TEXT,
    "a ``{}`` b": TEXT,
    "a `{}`": TEXT,
    "a `such as {} in code` b": TEXT,
    # A quoted line, an indented block, elements, quotation marks.
    "> {}\n\nThat is it.": TEXT,
    "So:\n\n    {}\n\nThat is it.": TEXT,
    "<pre>\n{}\n</pre>\n": TEXT,
    "<code>{}</code> is it.": TEXT,
    'It is "{}", so.': TEXT,
    "It is “{}”.": TEXT,
    "```\n{}\n```\n": TEXT,
    "```\n{}\n": LAST,
    "So:\n\n    {}\n ": LAST,
    "> {}\n": LAST,
    "<code>{}": CALL,
    'a "b {}': CALL,
    'a "b {} c': CALL,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lines", [False, True])
def test_what_quotes_a_call_holds_for_the_models_of_every_format(name: str, lines: bool) -> None:
    call = by_lines(name) if lines else CALLS[name].replace("¦", "")
    if lines and "\n" not in call:
        return
    for shape, what in QUOTED.items():
        if lines and "such as" in shape:
            continue  # its line ends in the call
        prefix = {" ": "    ", ">": "> "}.get(shape.partition("{")[0][-2:][:1], "")
        text = shape.replace("{}", call.replace("\n", "\n" + prefix))
        for model in (MODELS[name],) if lines else (MODELS[name], "my-model"):
            kimi = "kimi" in model and not (lines and prefix == "> ")  # text between its tags
            is_call = what == CALL or (what == LAST and kimi)
            wanted = shape.replace("{}", MEANT) if is_call else text.replace(": ", ":")
            assert at_sizes(model, text).strip() == wanted.replace(": ", ":").strip(), (
                shape,
                model,
            )


# Harmony's text is all in its own messages.
@pytest.mark.parametrize("name", [name for name in CALLS if name != "harmony"])
def test_an_indented_block_after_a_call_quotes_what_is_in_it(name: str) -> None:
    call, meant = CALLS[name].replace("¦", ""), MEANT.replace(": ", ":")
    block = "    " + call.replace("\n", "\n    ")
    deep = "      " + call.replace("\n", "\n      ")
    for before, after in (
        ("", f"\n\n{block}\n\nThat is it."),
        ("- a\n\n  ", f"\n\n{deep}\n\nThat is it."),
    ):
        left = f"{before}{meant}{after}".replace(": ", ":")
        assert at_sizes(MODELS[name], f"{before}{call}{after}") == left
    for before, after in (("", f"\n\n{call}"), ("", f"\n{block}"), ("- a\n  ", f"\n\n{block}")):
        assert at_sizes(MODELS[name], f"{before}{call}{after}") == f"{before}{meant}{meant}"


@pytest.mark.parametrize("shape", ["`{}` it is.", "So:\n\n    {}\n", "<code>{}</code>", 'a "{}" b'])
def test_a_fence_within_a_quoted_call_hides_no_call_after_it(shape: str) -> None:
    call = (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n"
        f"{LS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )
    quoted = shape.replace("{}", call.replace("\n", "\n    " if "    " in shape else "\n"))
    assert at_sizes("deepseek-r1", f"{quoted}\n\n{call}") == f"{quoted}\n\n{MEANT}"


K3_TOLD = (
    "K3 begins a thought with <|open|>think<|sep|> and ends it with <|close|>think<|sep|>; an "
    "answer with <|open|>response<|sep|>. Then it goes on."
)
K2_TOLD = "It ends with <|tool_call_end|> and <|tool_calls_section_end|>, they say."
SECTION_TOLD = "So <|tool_calls_section_begin|> begins, <|tool_calls_section_end|> ends it."
SECTION_OF = "Kimi begins with <|tool_calls_section_begin|> where others do so."
EMPTY = "Well <|tool_calls_section_begin|> <|tool_calls_section_end|> then."
LFM = "<|tool_call_start|>[rm(path='x')]<|tool_call_end|> then"
NAMED = [
    "K2 begins with <|tool_calls_section_begin|>, a call with <|tool_call_begin|> and so on.",
    "A section ends with <|tool_call_end|><|tool_calls_section_end|>.",
    "- <|open|>think<|sep|> begins a thought (<|close|>think<|sep|> ends it)",
    "K3 writes <|open|>think<|sep|>…<|close|>think<|sep|> around thoughts.",
    "After <|close|>think<|sep|><|open|>tools<|sep|> come the calls",
    "Calls begin with <|tool_call_begin|><|close|>think<|sep|>, some say.",
    "<|tool_call_begin|> begins one, and so on <|tool_call_end|><|end_of_msg|>, they say.",
    "The last one is **<|end_of_msg|>**",
    "It ends with <|tool_call_begin|>",
]
K2_CALL, GLM_CALL = (CALLS[name].replace("¦", "") for name in ("kimi_k2", "glm"))
STRAYS = [
    *[
        (model, text, text)
        for text in (K3_TOLD, K2_TOLD, SECTION_TOLD, EMPTY, LFM)
        for model in ("glm-5", "qwen3", "deepseek-v4", "minimax-m2", "my-model", "lfm2-8b")
    ],
    *[
        (model, text, text)
        for text in (K3_TOLD, K2_TOLD, SECTION_TOLD, SECTION_OF, *NAMED)
        for model in ("kimi-k2.5", "kimi-k3")
    ],
    ("kimi-k3", "Hm. <|close|>think<|sep|><|open|>response<|sep|>**So**", "Hm. **So**"),
    ("kimi-k3", "Hm. <|close|>think<|sep|>So", "Hm. So"),
    ("kimi-k2.5", "It ends.<|tool_call_end|> And so.", "It ends. And so."),
    ("kimi-k2.5", "It ends\n<|tool_call_end|>\nand so.", "It ends\n\nand so."),
    ("kimi-k2.5", EMPTY, EMPTY),
    ("kimi-k2.5", EMPTY.replace("Well ", "Well."), "Well. then."),
    ("kimi-k2.5", EMPTY.replace("Well ", "Well.\n"), "Well.\n then."),
    # Quoted as calls are: by what follows.
    ("kimi-k2.5", "a `b<|tool_call_end|> c", "a `b c"),
    ("kimi-k2.5", "a `b<|tool_call_end|> c\n`d", "a `b c\n`d"),
    ("kimi-k2.5", "a `b <|tool_call_end|> c` d", "a `b <|tool_call_end|> c` d"),
    ("kimi-k2.5", f"a `b<|tool_call_end|> c {K2_CALL}", f"a `b c {MEANT}"),
    ("kimi-k2.5", "<pre>\n<|tool_call_end|>\n</pre>", "<pre>\n<|tool_call_end|>\n</pre>"),
    ("kimi-k2.5", "<pre>\n<|tool_call_end|> c", "<pre>\n c"),
    ("kimi-k2.5", 'a "<|tool_call_end|>" b', 'a "<|tool_call_end|>" b'),
    ("kimi-k2.5", 'a "b<|tool_call_end|> c', 'a "b c'),
    ("kimi-k3", "So “<|open|>think<|sep|>” begins.", "So “<|open|>think<|sep|>” begins."),
    ("kimi-k3", "Hm.<|close|>think<|sep|>A<|close|>message<|sep|><|end_of_msg|>", "Hm.A"),
    ("my-model", f"{K2_CALL}<|tool_call_end|> So.", f"{MEANT} So."),
    ("glm-5", f"{K2_CALL} So {K3_TOLD}", f"{MEANT} So {K3_TOLD}"),
    ("my-model", f"{K2_TOLD} {K2_CALL}", f"{K2_TOLD} {MEANT}"),
    ("glm-5", f"{SECTION_OF} {GLM_CALL} {K2_TOLD}", f"{SECTION_OF} {MEANT} {K2_TOLD}"),
    ("gpt-oss-20b", "It is so.<|end|>", "It is so."),
    ("minimax-m2", "So.</minimax:tool_call>", "So."),
    ("doubao-seed-1.8", "So.\n</seed:tool_call>\n", "So.\n"),
    ("doubao-seed-1.8", "So.</seed:tool_call> it ends.", "So.</seed:tool_call> it ends."),
    ("qwen3", "So.</seed:tool_call>", "So.</seed:tool_call>"),
    ("glm-5", "So.</minimax:tool_call> it ends.", "So.</minimax:tool_call> it ends."),
]


@pytest.mark.parametrize(("model", "text", "wanted"), STRAYS)
def test_a_marker_without_a_call_is_taken_out_of_what_its_own_models_write(
    model: str, text: str, wanted: str
) -> None:
    assert at_sizes(model, text) == wanted.replace(": ", ":")


@pytest.mark.parametrize("model", ["glm-5", "qwen3", "my-model", "deepseek-v4"])
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_a_sentence_about_channels_is_forwarded_byte_for_byte(model: str, field: str) -> None:
    for pieces in ([K3_TOLD], list(K3_TOLD), K3_TOLD.split("|")):
        deltas = [chunk({field: piece}, model=model) for piece in pieces]
        stream = sse([*deltas, chunk({}, "stop", model=model)])
        assert repair(stream, REQUEST | {"model": model}) == stream


LONE = {
    "qwen3-coder": ("<tool_call>", "</tool_call>", "<tool_call>\n", "</tool_call>\n\n"),
    "hermes-4-70b": ("<tool_call>", "</tool_call>"),
    "glm-5": ("<tool_call>", "</tool_call>\n"),
    "deepseek-v4": ("<｜DSML｜tool_calls", "<｜DSML｜tool_calls>", "<||DSML||function_calls\n"),
    "minimax-m2": ("<minimax:tool_call", "<minimax:tool_call>", "</minimax:tool_call>"),
}


@pytest.mark.parametrize("model", LONE)
def test_a_lone_tag_at_the_end_is_not_shown_to_clients_of_its_own_models(model: str) -> None:
    for tag in LONE[model]:
        text = f"Let me look.\n\n{tag}"
        assert at_sizes(model, text).strip() == "Let me look.", tag
        for other in ("my-model", "kimi-k2.5", "mistral-large"):
            assert at_sizes(other, text) == text, tag
        assert at_sizes(model, f"So.{tag}").strip() == "So.", tag
        named = "a {} b", "The closer is {}", "- {}"
        for shape in ("It is `{}`.", "```\n{}\n", "```\n{}\n```\n", *named):
            if shape != "a {} b" or tag.strip("</\n") == "tool_call>":
                text = shape.replace("{}", tag.strip())
                assert at_sizes(model, text) == text


@pytest.mark.parametrize("tag", LONE["deepseek-v4"])
def test_an_opener_beside_native_calls_is_not_shown(tag: str) -> None:
    function = {"name": "bash", "arguments": '{"command":"ls"}'}
    native = {"index": 0, "id": "call_1", "type": "function", "function": function}
    texts = ["Let me look.\n\n", *tag]
    chunks = [*[chunk({"content": text}) for text in texts], chunk({"tool_calls": [native]})]
    stream = sse([{**each, "model": "deepseek-v4"} for each in [*chunks, chunk({}, "tool_calls")]])
    out = read(repair(stream, REQUEST | {"model": "deepseek-v4"}))
    assert out.content.strip() == "Let me look."
    assert (len(out.calls), out.finish) == (1, ["tool_calls"])


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_marker_that_is_text_is_in_one_field_wherever_it_is_cut(field: str) -> None:
    refused = "Hm. <|tool_call_begin|> begins one; so "
    for at in range(1, len(refused)):
        pieces = [refused[:at], refused[at:] + K2_CALL]
        deltas = [chunk({field: piece}) for piece in pieces]
        out = read(repair(sse([*deltas, chunk({}, "stop")]), REQUEST | {"model": "kimi-k2.5"}))
        assert out.reasoning + out.content == refused
        assert "<|tool_call_begin|>" in (out.reasoning if "<" in out.reasoning else out.content)
        assert [call["name"] for call in out.calls] == ["bash"]


ODD = '<|tool_call_begin|>!!!<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|>'


@given(st.data(), st.sampled_from(sorted(CALLS)))
def test_a_soup_of_calls_and_quotations_reads_the_same_at_any_cut(
    data: st.DataObject, name: str
) -> None:
    call = CALLS[name]
    parts = [call.replace("¦", ""), by_lines(name), *call.split("¦"), "</tool_call>", ODD, "alpha "]
    soup = "".join(data.draw(st.lists(st.sampled_from([*parts, *QUOTING, "``"]), max_size=10)))
    whole = read_by(MODELS[name], [soup])
    assert whole.count("alpha") == soup.count("alpha")
    assert read_by(MODELS[name], data.draw(cut(soup))) == whole
