"""The scanner, as a table: text in, pieces out; however it is cut."""

from __future__ import annotations

import pytest

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, Dropped, LeftAsText, ScanEvent, Text
from tests.repair.formats.turns import cuts_of
from tests.repair.streams import scanner_of
from tests.repair.turns import REQUEST

SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
LS = '{"command":"ls"}'
CALL = f"{CB}functions.bash:0{AB}{LS}{CE}"
SECTION = f"{SB}{CALL}{SE}"
BASH = f"[bash {LS}]"


def gist(pieces: list[ScanEvent]) -> str:
    """The pieces in short: text as it is, a call as ``[name arguments]``, with ``…`` if its end is
    not marked.  What was dropped is left out."""
    out = ""
    for piece in pieces:
        match piece:
            case Text(text=text):
                out += text
            case Call(name=name, arguments=arguments):
                out += f"[{name} {arguments}{'…' if piece.unmarked else ''}]"
            case Dropped() | LeftAsText():
                pass
    return out


# rule, text, what comes out ("=": the very text, and nothing that was dropped)
TABLE: dict[str, tuple[str, str, str]] = {
    "a section": ("any", f"Look. {SECTION}", f"Look. {BASH}"),
    "a bare call": ("any", CALL, BASH),
    "arguments in a string": ("any", f'{CB}bash:0{AB}"{{\\"command\\":\\"ls\\"}}"{CE}', BASH),
    "a string that is no object": ("any", f'{CB}bash:0{AB}"ls"{CE}', '[bash "ls"]'),
    "no argument marker": ("any", f"{CB}functions.bash:3 {LS} {CE}", BASH),
    "no argument marker, nothing in it": (
        "any",
        f"{SB}{CB}bash:3{{}}{CE}{CB}bash:4 {LS}{SE}.",
        f"[bash {{}}]{BASH}.",
    ),
    "no marker but the end's": (
        "any",
        f"{SB}functions.bash:3 {LS}{CE}bash:4{LS}{CE}{SE}",
        BASH * 2,
    ),
    "no argument marker, a quoted marker": (
        "any",
        f'{CB}bash:0 {{"command":"{CE}"}}{CE}',
        f'[bash {{"command":"{CE}"}}]',
    ),
    "no argument marker, undeclared": ("any", f"{CB}rm:3 {LS}{CE}", "="),
    "no argument marker, no object": ("any", f"{CB}bash:3 {{x}}", "="),
    "blanks around all": ("any", f"{SB}\n {CB} bash : 0 {AB} {LS}\n{CE}\n{SE}\n", BASH),
    # Quoted code.
    "in a fence": ("any", f"```\n{SECTION}\n```\n", "="),
    "in a fence, another model": ("declared", f"```\n{SECTION}\n```\n", "="),
    "in a fence, a text after it": ("any", f"```\n{SECTION}\nSo.", "="),
    "in a fence of a list": ("any", f"- a:\n  ```\n  {SECTION}\n  ```\n", "="),
    "in inline code": ("any", f"`{CALL}` is a call", "="),
    "in inline code, another model": ("declared", f"a `{CALL}` x", "="),
    "after an odd backtick": ("declared", f"the `foo file: {CALL}", f"the `foo file: {BASH}"),
    "after an odd backtick, then text": ("any", f"a `b {CALL} c", f"a `b {BASH} c"),
    "after an odd backtick, then another line": (
        "declared",
        f"a `b {CALL}\nc `d",
        f"a `b {BASH}\nc `d",
    ),
    "markers alone in inline code": ("any", f"`{SB}` then `{CB}` and `{AB}`, `{CE}` `{SE}`", "="),
    "after a fence": ("any", f"```\nx\n```\n{SECTION}", f"```\nx\n```\n{BASH}"),
    "right after a fence": ("any", f"```\nx\n```{SECTION}", f"```\nx\n```{BASH}"),
    "after inline code": ("declared", f"`x` {SECTION}", f"`x` {BASH}"),
    "a fence left open, Kimi": ("any", f"```\nx\n{SECTION}\n", f"```\nx\n{BASH}"),
    "a backtick left open, Kimi": ("any", f"the `x file {SECTION}", f"the `x file {BASH}"),
    "a fence left open, bare calls": ("any", f"```\n{CALL}\n{CALL}", f"```\n{BASH}{BASH}"),
    "a fence left open, two sections": ("any", f"```\n{SECTION} {SECTION}", f"```\n{BASH}{BASH}"),
    "a fence left open, another model": ("declared", f"```\nx\n{SECTION}", "="),
    "a fence left open, an unfinished call": ("any", f'```\n{CB}bash:0{AB}{{"command":', "="),
    "a fence left open, no JSON": ("any", f"```\n{CB}bash:0{AB}{{arguments}}{CE}{SE}", "="),
    "in inline code, no JSON that ends it": ("any", f"```{CB}{AB}```{AB}", f"```{CB}{AB}```"),
    "in inline code, a quoted marker": (
        "any",
        f'`{CB}{AB}{{"a": "{AB}` x{AB} y',
        f'`{CB}{AB}{{"a": "{AB}` x y',
    ),
    "a fence left open, no call": ("any", f"```\n{SB}{SE}", "="),
    "a fence left open, unknown end": ("any", f"```\n{CB}bash:0{AB}{LS}", f"```\n{BASH[:-1]}…]"),
    "backticks in arguments": (
        "any",
        f'{CB}bash:0{AB}{{"command":"echo ```"}}{CE} and {CALL}',
        f'[bash {{"command":"echo ```"}}] and {BASH}',
    ),
    # Headers.
    "a sentence is no header": ("any", f"a {CB} starts a call, {AB} its arguments", "="),
    "what belongs to it is text": ("any", f"{SB}{CB}to begin{AB}{LS}{CE}{SE}", "="),
    "a quote is no header": ("any", f"{CB}| the name |{AB}", "="),
    "129 characters are none": ("any", f"{CB}{'x' * 129}{AB}{LS}{CE}", "="),
    "128 characters are one": ("any", f"{CB}{'x' * 128}{AB}{LS}{CE}", f"[{'x' * 128} {LS}]"),
    "a real call after one that was none": (
        "any",
        f"{CB} begins it. {SECTION} x{SE}",
        f"{CB} begins it. {BASH} x",
    ),
    "a word without arguments": ("any", f"{CB}and{CE}", "="),
    "a declared tool without arguments": ("any", f"{CB}bash{CE}", "[bash {}]"),
    # Odd headers: where the turn ends, what one declared tool takes is a call of Kimi's.
    "signs alone, last": ("any", f"Go. {SB}{CB}!!!{AB}{LS}{CE}{SE}\n", f"Go. {BASH}"),
    "one sign, last": ("any", f"{CB} ? {AB}{LS}{CE}", BASH),
    "a name and a sign, last": ("any", f"{SB}{CALL}{CB}bash!{AB}{LS}{CE}{SE}", f"{BASH}{BASH}"),
    "a name and a sign, unclosed": ("any", f"{SB}{CB}bash!{AB}{LS}", f"{BASH[:-1]}…]"),
    "signs alone in no section, then text": ("any", f"{CB}!!!{AB}{LS}{CE} Done.", "="),
    "signs alone, then text": ("any", f"{SB}{CB}!!!{AB}{LS}{CE}{SE} Done.", f"{BASH} Done."),
    "signs alone, then a call": ("any", f"{SB}{CB}!!!{AB}{LS}{CE}{SE}.{SECTION}", f"{BASH}.{BASH}"),
    "signs alone, arguments of no tool, then text": (
        "any",
        f'{SB}{CB}!!!{AB}{{"a":1}}{CE}{SE} Done.',
        "=",
    ),
    "a tag, then text": ("any", f"{SB}{CB}<bad>{AB}{LS}{CE}{SE} Done.", f"{BASH} Done."),
    "a tag, then a call": ("any", f"{SB}{CB}<bad>{AB}{LS}{CE}{CALL}{SE}.", f"{BASH}{BASH}."),
    "a tag, another model": ("declared", f"{SB}{CB}<bad>{AB}{LS}{CE}{SE} Done.", "="),
    "a tag of another format": (
        "any",
        f'{SB}{CB}<tool_call>{{"name": "bash", "arguments": {LS}}}</tool_call>',
        f"{SB}{CB}{BASH}",
    ),
    "a header and more": (
        "any",
        f"{SB}{CB}functions.bash:0 extra{AB}{LS}{CE}{SE} Done.",
        f"{BASH} Done.",
    ),
    "a blank after a dot": ("any", f"{SB}{CB}functions. bash:15{AB}{LS}{CE}{SE} x", f"{BASH} x"),
    "a blank after a dot, no begin": (
        "any",
        f"{SB}functions. bash:15{AB}{LS}{CE}{SE} x",
        f"{BASH} x",
    ),
    "a blank after a dot, nothing before": (
        "any",
        f"functions. bash:15{AB}{LS}{CE} x",
        f"{BASH} x",
    ),
    "signs alone, half the arguments": ("any", f'{CB}!!!{AB}{{"comm', "="),
    "signs alone, arguments of no tool": ("any", f'{CB}!!!{AB}{{"a":1}}{CE}', "="),
    "signs alone, no JSON": ("any", f"{SB}{CB}!!!{AB}ls{CE}{SE}", "="),
    "signs alone, another model": ("declared", f"{SB}{CB}!!!{AB}{LS}{CE}{SE}", "="),
    "signs alone, no arguments": ("any", f"{SB}{CB}!!!{CE}{SE}", "="),
    "signs alone in quotation marks": ("any", f'"{CB}!!!{AB}{LS}{CE}"', "="),
    "signs and a sentence": ("any", f"{CB}, then its name, {AB}{LS}{CE}", "="),
    # Names.
    "undeclared, Kimi": ("any", f"{CB}rm:0{AB}{{}}{CE}", "[rm {}]"),
    "undeclared, other": ("declared", f"{SB}{CB}rm:0{AB}{{}}{CE}{SE} x", "="),
    "undeclared, then declared": (
        "declared",
        f"{SB}{CB}rm:0{AB}{{}}{CE}{CALL}{SE}",
        f"{SB}{CB}rm:0{AB}{{}}{CE}{BASH}",
    ),
    "a name is not inferred": ("any", f"{CB}delete_file{AB}{LS}{CE}", f"[delete_file {LS}]"),
    "a prefixed name is not inferred": (
        "any",
        f"{CB}functions.delete_file{AB}{LS}{CE}",
        f"[delete_file {LS}]",
    ),
    "an address is not inferred": ("any", f"{CB}weird@id{AB}{LS}{CE}", f"[weird@id {LS}]"),
    "a prefix alone has no name": ("any", f"{CB}functions.{AB}{LS}{CE}", BASH),
    "an index alone has no name": ("any", f"{CB}:0{AB}{LS}{CE}", BASH),
    "a prefix alone that fits nothing": ("any", f"{CB}functions.{AB}[]{CE}", "="),
    "no header that fits nothing": ("any", f'{SB}{CB}{AB}{{"a":1}}{CE}{SE} x', "="),
    "nameless": ("declared", f"{CB}3{AB}{LS}{CE}", BASH),
    "nameless, fits nothing, Kimi": ("any", f'{CB}3{AB}{{"a":1}}{CE}', '[3 {"a":1}]'),
    "nameless, fits nothing, other": ("declared", f'{CB}3{AB}{{"a":1}}{CE} x', "="),
    "nameless, cut off, other": ("declared", f'{CB}3{AB}{{"comm', "="),
    # Ends.
    "an end within a header": ("any", f"Look.{CB}functions.ba", "="),
    "an end after a header": ("any", f"Look.{CB}functions.bash:0", "="),
    "an end within the marker of arguments": ("any", f"Look.{CB}functions.bash:0{AB[:9]}", "="),
    "an end within a section's header": ("any", f"{SB}\n{CB} functions.bash:0\n", "="),
    "an end within a header after a call": (
        "any",
        f"{SB}{CALL}{CB}functions.bash:1",
        f"{BASH}{CB}functions.bash:1",
    ),
    "an end after a begin marker after a call": ("any", f"{SB}{CALL}{CB}\n", BASH),
    "blanks after the last section": ("any", f"a {SECTION}\n\n", f"a {BASH}"),
    "text after the last section": ("any", f"{SECTION}\n\nDone.\n", f"{BASH}\n\nDone.\n"),
    "an empty section": ("any", f"a {SB}\n{SE} b\n", "a  b\n"),
    "a stray end": ("any", f"a{SE}\n", "a\n"),
    "a stray marker of arguments": ("any", f"a{AB} b and c", "a b and c"),
    "an end that a line of text names": ("any", f"a {SE}\n", "="),
    "a marker of arguments, likewise": ("any", f"a {AB} b and c", "="),
    "a stray marker of arguments before a brace": ("any", f"a {AB}{{b}} and", "a {b} and"),
    "a stray marker of arguments before no JSON": ("any", f'a {AB}{{"b" and', 'a {"b" and'),
    "a stray marker of arguments, last": ("any", f"a{AB}", "a"),
    "arguments without a header": ("any", f"a {AB}{LS}{CE}", f"a {BASH}"),
    "no end marker, then prose": ("any", f"{CB}bash:0{AB}{LS} Done.", f"{BASH} Done."),
    "no end marker in a section, then prose": (
        "any",
        f"{SB}{CB}bash:0{AB}{LS}\nNow:{CALL}{SE}",
        f"{BASH}\nNow:{BASH}",
    ),
    "a stripped header": ("any", f"bash:0{AB}{LS}{SE}", BASH),
    "a stripped header after text": ("any", f"Now bash:0{AB}{LS}{SE}", f"Now {BASH}"),
    "a stripped header after text, which ends inline code": (
        "any",
        f"a `{CE} bash:0\n{AB}{LS}{CE} x {CALL} y",
        f"a ` {BASH} x {BASH} y",
    ),
    "a stripped header in code": ("any", f"`bash:0{AB}{LS}`", "="),
    "a stripped header right after a fence": (
        "any",
        f"x\n```\na\n```bash:0{AB}{LS}{CE}",
        "=",
    ),
    "a stray marker of arguments in a section": (
        "any",
        f"{SB}{AB} prose and more",
        " prose and more",
    ),
    "arguments without a header in a section": ("any", f"{SB}{AB} {LS}{CE}{SE}", BASH),
    "a header of signs alone": ("any", f"{CB}...{AB}{LS}{CE}", BASH),
    "no call is wanted": ("none", f"a {SECTION} bash:0{AB}{LS}{CE}", "="),
}


def scanned(rule: str, pieces: list[str]) -> list[ScanEvent]:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), rule)
    out = [piece for text in pieces for piece in scanner.feed(text)]
    return out + scanner.close()


@pytest.mark.parametrize(("rule", "text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_text_becomes_pieces(rule: str, text: str, wanted: str) -> None:
    pieces = scanned(rule, [text])
    assert gist(pieces) == (text if wanted == "=" else wanted)
    if wanted == "=":
        assert not any(isinstance(piece, Dropped) for piece in pieces)
        assert any(isinstance(piece, LeftAsText) for piece in pieces)


# A header that has left as text stays visible: what is text cannot wait for what may follow.
STRIPPED = "a stripped header after text"


@pytest.mark.parametrize("name", [n for n in TABLE if STRIPPED not in n])
def test_the_cutting_changes_nothing(name: str) -> None:
    rule, text, _ = TABLE[name]
    whole = gist(scanned(rule, [text]))
    for pieces in cuts_of(text):
        assert gist(scanned(rule, pieces)) == whole


@pytest.mark.parametrize("arguments", ["x", "{x}", "{ 1"])
def test_text_that_is_no_object_after_a_header_is_not_held(arguments: str) -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "any")
    text = f"{CB}bash:3 {arguments}, and so on."
    assert gist(scanner.feed(text)) == text
    assert scanner.undecided == 0


def test_what_a_limit_cuts_in_code_is_text() -> None:
    for whole, wanted in ((True, f"```\n{BASH}"), (False, f"```\n{SECTION}")):
        scanner = scanner_of(DeclaredTools.of_request(REQUEST), "any")
        assert gist(scanner.feed(f"```\n{SECTION}") + scanner.close(whole=whole)) == wanted


def test_each_field_is_a_text_of_its_own() -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared")
    out = scanner.enter("reasoning") + scanner.feed("```\n")
    out += scanner.enter("content") + scanner.feed(SECTION)
    out += scanner.enter("reasoning") + scanner.feed(SECTION) + scanner.close()
    assert gist(out) == f"```\n{BASH}{SECTION}"


def test_in_code_a_field_that_ends_decides_for_kimi() -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "any")
    out = scanner.enter("reasoning") + scanner.feed(f"```\n{SECTION}\n")
    assert gist(out + scanner.enter("reasoning")) == "```\n"
    assert gist(scanner.enter("content")) == BASH


def test_a_header_that_repeats_an_id_of_the_history_names_its_tool() -> None:
    call = {"id": "call_77", "type": "function", "function": {"name": "finish", "arguments": "{}"}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    tools = DeclaredTools.of_request(REQUEST | {"messages": messages})
    scanner = scanner_of(tools, "declared")
    pieces = scanner.feed(f"{CB}call_77{AB}{LS}{CE}")
    form = "id of an earlier call"
    assert pieces == [Call("finish", [LS], "call_77", form, "kimi_k2")]


OPEN_SCHEMAS = {"read": ["path"], "grep": ["path", "pattern"], "noop": []}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ('{"path": "x", "pattern": "y"}', "grep"),
        ('{"path": "x"}', "7"),
        ('{"other": 1}', "7"),
        ("{}", "7"),
    ],
)
def test_of_open_schemas_the_one_that_declares_all_keys_is_meant(arguments: str, name: str) -> None:
    schemas = {
        tool: {"type": "object", "properties": {key: {"type": "string"} for key in keys}}
        for tool, keys in OPEN_SCHEMAS.items()
    }
    pieces = scanner_of(DeclaredTools(schemas), "any").feed(f"{CB}7{AB}{arguments}{CE}")
    assert [piece.name for piece in pieces if isinstance(piece, Call)] == [name]


def test_no_call_has_an_empty_or_blank_name() -> None:
    for header in ("", " ", "functions.", "functions", ":", ".:0", "functions.:0"):
        for text in (f"{CB}{header}{AB}[1]{CE}", f"{CB}{header}{CE}", f"{SB}{header}{AB}{{}}{SE}"):
            for rule in ("any", "open", "declared"):
                for tools in (DeclaredTools({}), DeclaredTools.of_request(REQUEST)):
                    scanner = scanner_of(tools, rule)
                    pieces = scanner.feed(text) + scanner.close()
                    names = [piece.name for piece in pieces if isinstance(piece, Call)]
                    assert all(name.strip() for name in names)


@pytest.mark.parametrize(
    ("header", "call_id"),
    [
        *((" functions. bash:15 ", "functions.bash:15"), ("bash:0", "bash:0")),
        *((header, "") for header in ("", "functions.", "functions.:", "<bad>", "...", "3")),
        ("functions.bash:0 extra", ""),
    ],
)
@pytest.mark.parametrize("after", ["", " Done."])
def test_a_header_is_the_id_of_its_call_if_it_is_one(header: str, call_id: str, after: str) -> None:
    text = f"{SB}{CB}{header}{AB}{LS}{CE}{SE}{after}"
    for size in (1, 2, 7, len(text)):
        pieces = scanned("any", [text[at : at + size] for at in range(0, len(text), size)])
        (start,) = (piece for piece in pieces if isinstance(piece, Call))
        assert (start.name, start.call_id) == ("bash", call_id)
