"""What holds for every format, and for texts in which several are mixed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.events import Call, LeftAsText, Refusal, ScanEvent
from dragoman.repair.formats.formats_by_family import AUTO, NAMES
from tests.repair.formats.turns import DECLARED, gist, scanned, streamed
from tests.repair.streams import scanner_of
from tests.repair.turns import cut

MEANT = '[bash {"command":"ls"}]'
LS = '{"command":"ls"}'
INVOKE = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
# Cut where a marker of the format ends: the soup takes the pieces apart.
ALL = AUTO.looked_for("", claude=True)
CALLS = {
    "kimi_k2": f"<|tool_calls_section_begin|>¦<|tool_call_begin|>functions.bash:0"
    f"<|tool_call_argument_begin|>¦{LS}¦<|tool_call_end|>¦<|tool_calls_section_end|>",
    "kimi_k3": '<|open|>tools<|sep|>¦<|open|>call tool="bash" index="1"<|sep|>¦'
    '<|open|>argument key="command" type="string"<|sep|>¦ls¦<|close|>argument<|sep|>¦'
    "<|close|>call<|sep|>¦<|close|>tools<|sep|>",
    "dsml": '<｜DSML｜tool_calls>¦<｜DSML｜invoke name="bash">¦'
    '<｜DSML｜parameter name="command" string="true">¦ls¦</｜DSML｜parameter>¦'
    "</｜DSML｜invoke>¦</｜DSML｜tool_calls>",
    "deepseek": "<｜tool▁calls▁begin｜>¦<｜tool▁call▁begin｜>¦bash<｜tool▁sep｜>¦"
    f"{LS}¦<｜tool▁call▁end｜>¦<｜tool▁calls▁end｜>",
    "hermes": f'<tool_call>¦{{"name": "bash", "arguments": {LS}}}¦</tool_call>',
    "qwen": "<tool_call>¦<function=bash>¦<parameter=command>¦ls¦</parameter>¦</function>¦"
    "</tool_call>",
    "glm": "<tool_call>¦bash<arg_key>¦command¦</arg_key>¦<arg_value>¦ls¦</arg_value>¦</tool_call>",
    "hunyuan": "<tool_calls><tool_call>¦bash<tool_sep><arg_key>¦command¦</arg_key>¦<arg_value>¦ls¦"
    "</arg_value>¦</tool_call>¦</tool_calls>",
    "claude": '<function_calls>¦<invoke name="bash">¦<parameter name="command">¦ls¦'
    "</parameter>¦</invoke>¦</function_calls>",
    "minimax_m2": '<minimax:tool_call>¦<invoke name="bash">¦<parameter name="command">¦ls¦'
    "</parameter>¦</invoke>¦</minimax:tool_call>",
    "minimax_m3": ']<]minimax[>[<tool_call>¦]<]minimax[>[<invoke name="bash">¦'
    "]<]minimax[>[<command>¦ls¦]<]minimax[>[</command>¦]<]minimax[>[</invoke>¦"
    "]<]minimax[>[</tool_call>",
    "function": '<dots_function_call>¦<function name="bash">¦<param name="command">¦ls¦</param>¦'
    "</function>¦</dots_function_call>",
    "step": '<steptml:toolcall>¦<steptml:invoke name="bash">¦<steptml:parameter name="command">¦'
    "ls¦</steptml:parameter>¦</steptml:invoke>¦</steptml:toolcall>",
    "xai": '<xai:function_call name="bash">¦<parameter name="command">¦ls¦</parameter>¦'
    "</xai:function_call>",
    "atem": '<atem:function_calls>¦<atem:invoke name="bash">¦<atem:parameter name="command">¦'
    "ls¦</atem:parameter>¦</atem:invoke>¦</atem:function_calls>",
    "solar": "<|tool_call:start|>¦bash<|tool_arg:start|>¦command<|tool_arg:value|>¦ls¦"
    "<|tool_arg:end|>¦<|tool_call:end|>",
    "plamo": "<|plamo:begin_tool_requests:plamo|>¦<|plamo:begin_tool_request:plamo|>"
    "<|plamo:begin_tool_name:plamo|>bash<|plamo:end_tool_name:plamo|>¦"
    f"<|plamo:begin_tool_arguments:plamo|>¦{LS}¦<|plamo:end_tool_arguments:plamo|>¦"
    "<|plamo:end_tool_request:plamo|>¦<|plamo:end_tool_requests:plamo|>",
    "harmony": f"<|channel|>¦commentary to=functions.bash <|constrain|>json<|message|>¦{LS}¦"
    "<|call|>",
    "mistral": f'[TOOL_CALLS]¦[{{"name": "bash", "arguments": {LS}}}]',
    "nemotron": f'<TOOLCALL>¦[{{"name": "bash", "arguments": {LS}}}]¦</TOOLCALL>',
    "llama": f'<|python_tag|>¦{{"name": "bash", "parameters": {LS}}}¦<|eom_id|>',
    "granite": f'<|tool_call|>¦[{{"name": "bash", "arguments": {LS}}}]¦<|/tool_call|>',
    "doubao": f'<|FunctionCallBegin|>¦[{{"name": "bash", "parameters": {LS}}}]¦<|FunctionCallEnd|>',
    "tools": f'<tools>¦{{"name": "bash", "arguments": {LS}}}¦</tools>',
    "minimax_text": f'[TOOL_CALL]¦{{"name": "bash", "arguments": {LS}}}¦[/TOOL_CALL]',
    "gemma": '<|tool_call>¦call:bash{command:<|"|>¦ls¦<|"|>}¦<tool_call|>',
    "python": '<tool_call>¦bash(command="¦ls¦")¦</tool_call>',
    "lfm2": '<|tool_call_start|>¦[bash(command="¦ls¦")]¦<|tool_call_end|>',
    "longcat": f'<longcat_tool_call>¦{{"name": "bash", "arguments": {LS}}}¦</longcat_tool_call>',
    "gigachat": f'<|function_call|>¦{{"name": "bash", "arguments": {LS}}}¦</s>',
    "cohere": f'<|START_ACTION|>¦[{{"tool_name": "bash", "parameters": {LS}}}]¦<|END_ACTION|>',
    "internlm": f'<|action_start|><|plugin|>¦{{"name": "bash", "parameters": {LS}}}¦<|action_end|>',
    "apertus": f'<|tools_prefix|>¦[{{"bash": {LS}}}]¦<|tools_suffix|>',
    "iquest": f'<iquest_tool_call>¦{{"name": "bash", "arguments": {LS}}}¦</iquest_tool_call>',
    "k2_horizon": f'<ifm|tool_call>¦{{"name": "bash", "arguments": {LS}}}¦</ifm|tool_call>',
    "content_invoke": f'<|content_invoke_tool_json|>¦{{"name": "bash", "arguments": {LS}}}¦'
    "<|end_message|>",
    "function_call": f'<function_call>¦{{"name": "bash", "arguments": {LS}}}¦</function_call>',
    "tool_calls": f'<tool_calls>¦[{{"name": "bash", "arguments": {LS}}}]¦</tool_calls>',
    "tool_request": f'[TOOL_REQUEST]¦{{"name": "bash", "arguments": {LS}}}¦[END_TOOL_REQUEST]',
    "calling_tool": f"[Calling tool:¦ bash({LS}¦)]",
}
TAGGED = ("kimi_k3", "dsml", "qwen", "glm", "claude", "minimax_m2", "minimax_m3", "function")
TAGGED += ("step", "atem", "hunyuan", "xai", "solar")
BRACKETED = ("gemma", "lfm2", "python")
JSON = sorted(CALLS.keys() - {*TAGGED, *BRACKETED})
PIECES = sorted({piece for call in CALLS.values() for piece in call.split("¦")})
WORDS = ["alpha ", " beta", "gamma\n"]
WHOLE = [call.replace("¦", "") for call in CALLS.values()]


def test_every_format_has_its_row() -> None:
    assert {*CALLS, "json", "unknown"} == set(NAMES), "these two are no call among other text"


@pytest.mark.parametrize("name", CALLS)
def test_among_all_formats_each_is_known(name: str) -> None:
    call = CALLS[name].replace("¦", "")
    for size in (len(call), 1, 3):
        text = f"Look. {call}"
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert scanned(pieces, ALL).replace(": ", ":") == f"Look. {MEANT}"


def at_cuts(text: str, size: int) -> list[ScanEvent]:
    scanner = scanner_of(DECLARED, "declared", ALL)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [event for piece in pieces for event in scanner.feed(piece)] + scanner.close()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "shape", ["```\n{}\n```\nSo.", "`{}` is one.", "~~~xml\n{}", "see {} x"], ids=str.split
)
def test_what_is_no_call_is_text_to_the_character(name: str, shape: str) -> None:
    call = CALLS[name].replace("¦", "")
    if shape[0] == "s":  # the end of LFM2's calls is a stray marker of Kimi's there
        call = call.replace("bash", "rm").removesuffix("<|tool_call_end|>")
    text = shape.replace("{}", call)
    for size in (len(text), 1, 5):
        events = at_cuts(text, size)
        assert gist(events) == text
        assert any(isinstance(event, LeftAsText) for event in events)


QUOTED = {
    "indented": "So:\n\n    {}\n\nand no more.",
    "quoted lines": "So:\n> {}\n",
    "an HTML element": "So:\n<pre>\n{}\nand its end\n</pre>\n",
    "quotation marks": 'It writes "{}".',
    "single quotation marks": "It writes '{}' there.",
    "typographic quotation marks": "It writes “{}”.",
    "inline code over lines": "It writes `{}` then.",
}
LEAKED = {
    "an indented first line": "So:\n\n    {}\n",
    "in a list": "- So:\n\n    {}\n",
    "after a mark without its other half": 'a 5" pipe, a ` and <code>\n{}\nThen it is "5".',
    "after such a mark, and another where the turn ends": "a <code>\n{}\nThen\n{}",
    "too far from its other half": "a <code>\n{}" + " word" * 450 + "</code>",
}
NOT_OPEN = {
    "an odd mark": 'A 5" pipe.\n',
    "whole quotations": 'Let\'s look at the "src" folder, “too”. ',
    "a tag that is mentioned": "I put a <code> tag around it.\n",
    "marks in inline code": 'I put a `"` into `<pre>`.\n',
    "an indented first line": "So:\n\n    ",
}


def by_lines(name: str) -> str:
    """The call with each of its markers in a line of its own where the format allows that."""
    between = "" if name in ("kimi_k2", "deepseek", "mistral", "harmony", *BRACKETED) else "\n"
    values = ("¦ls¦", "¦command¦")
    call = CALLS[name]
    for value in values:
        call = call.replace(value, value.strip("¦"))
    return call.replace("¦", between)


@pytest.mark.parametrize("name", CALLS)
def test_where_only_what_follows_tells_a_quoted_call_is_text_and_a_leaked_one_a_call(
    name: str,
) -> None:
    call = by_lines(name)
    for shape, template in QUOTED.items():
        prefix = {"indented": "    ", "quoted lines": "> "}.get(shape, "")
        text = template.replace("{}", call.replace("\n", f"\n{prefix}"))
        assert [gist(at_cuts(text, size)) for size in (len(text), 1, 5)] == [text] * 3, shape
    for shape, template in LEAKED.items():
        if shape == "an indented first line" and "\n" not in call:
            continue
        if shape == "too far from its other half" and name == "mistral":
            continue  # its call has no end, and so waits for the text behind it
        text = template.replace("{}", call)
        for size in (len(text), 1, 5):
            got = gist(at_cuts(text, size)).replace(": ", ":")
            assert got.strip() == template.replace("{}", MEANT).strip(), shape


def test_a_text_between_the_calls_of_a_quoted_section_leaves_it_quoted() -> None:
    call = CALLS["kimi_k2"].replace("¦<|tool_call_begin", " ...\n<|tool_call_begin")
    text = f"<pre>\n{call.replace('¦', '')}\n</pre>"
    assert [gist(at_cuts(text, size)) for size in (len(text), 1, 5)] == [text] * 3


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_when_it_is_whole_and_is_nothing_where_a_reply_breaks_off(name: str) -> None:
    call = CALLS[name].replace("¦", "")
    for end in range(1, len(call)):
        scanner = scanner_of(DECLARED, "declared", ALL)
        events = scanner.feed(call[:end])
        said = gist(events + scanner.abandon()).replace(": ", ":")
        if not any(isinstance(event, Call) for event in events):
            assert call.startswith(said) and len(said) < 3, call[:end]
        else:
            assert said == MEANT.replace(": ", ":"), call[:end]


@pytest.mark.parametrize("text", ["<tool_call>bash", "<tool_call>{", "<function=bash>"])
def test_an_opener_that_is_known_by_what_follows_is_recorded_where_it_is_text(text: str) -> None:
    scanner = scanner_of(DECLARED, "declared", ALL)
    events = scanner.feed(text) + scanner.close()
    assert gist(events) == text
    left = [event.why for event in events if isinstance(event, LeftAsText)]
    assert left == [Refusal.WITHOUT_HEADER]


@pytest.mark.parametrize("name", CALLS)
def test_half_of_the_last_marker_is_no_text(name: str) -> None:
    call = CALLS[name].replace("¦", "")
    events = at_cuts(call if name == "mistral" else call[:-2], 5)
    assert gist(events).replace(": ", ":") == MEANT
    assert not any(isinstance(event, LeftAsText) for event in events)


@pytest.mark.parametrize("name", TAGGED)
def test_a_call_between_tags_without_its_end_is_text_where_the_reply_is_cut_off(name: str) -> None:
    head, value, end = CALLS[name].partition("¦ls¦")
    text = (head + value + end.partition("¦")[0]).replace("¦", "")
    cut, whole = (streamed([text], *ALL, finish=finish) for finish in ("length", "stop"))
    assert (cut.content, cut.calls, cut.finish) == (text, [], ["length"])
    assert [call["arguments"] for call in whole.calls] == [LS]
    half = (head + "¦l").replace("¦", "")
    for pieces in ([half], list(half)):
        # Qwen's models end with their last value, which is a call then.
        finish = "length" if name == "qwen" else "stop"
        out = streamed(pieces, *ALL, finish=finish)
        assert (out.content, out.calls, out.finish) == (half, [], ["length"])


HALF_HEADERS = (
    '<tool_call>{"na',
    "<function=ba",
    "<tool_call>bash\n<arg_k",
    "[TOOL_CALLS]ba",
)


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        *[(lone, "stop") for lone in ("So <tool_call>\n", "<function=", "[TOOL_CALLS]", "<|cha")],
        *[(half, "length") for half in HALF_HEADERS],
    ],
)
def test_a_lone_opener_is_only_text_and_half_a_header_a_call_that_was_cut_off(
    text: str, finish: str
) -> None:
    for pieces in ([text], list(text)):
        out = streamed(pieces, *ALL)
        assert (out.content, out.finish) == (text, [finish])


QUOTING = ("`", "```\n", '"', "“", "”", "<pre>", "</pre>", "\n", "\n\n", "    ", "> ", "'")
soups = st.lists(st.sampled_from([*PIECES, *WHOLE, *WORDS, *QUOTING, "<", "<|"]), max_size=12)


@given(st.data(), soups.map("".join))
def test_a_soup_of_all_formats_loses_nothing_and_reads_the_same_at_any_cut(
    data: st.DataObject, soup: str
) -> None:
    whole = scanned([soup], ALL)
    if "…]" not in whole:  # of a name or a tag that is cut off nothing can be made
        for word in ("alpha", "beta", "gamma"):
            assert whole.count(word) == soup.count(word)
    assert scanned(data.draw(cut(soup)), ALL) == whole
