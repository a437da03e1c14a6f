"""Calls in shapes that no format has: what is one, what stays text, what waits."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.formats_by_family import AUTO, FormatChoice
from dragoman.repair.formats.unknown_shape import MarkupReader
from dragoman.repair.repair_options import RepairOptions
from tests.repair.formats.turns import cuts_of, events_of, gist
from tests.repair.streams import chunk, read, repair, repair_whole, scanner_of, sse

ROOT = Path(__file__).parents[3]
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TOOLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "bash": ({"command": STRING, "timeout": INTEGER}, ["command"]),
    "read": ({"path": STRING, "limit": INTEGER}, ["path"]),
    "write": ({"path": STRING, "content": STRING}, ["path", "content"]),
    "edit": ({"path": STRING, "old": STRING, "new": STRING}, ["path", "old", "new"]),
    "search": ({"query": STRING, "kinds": {"type": "array", "items": STRING}}, ["query"]),
    "weather": ({"city": STRING, "days": INTEGER}, []),
    "create": ({"path": STRING, "type": STRING}, ["path"]),
    "user": ({"name": STRING}, ["name"]),
    "finish": ({}, []),
}
REQUEST: dict[str, Any] = {
    "model": "my-model",
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {"type": "object", "properties": properties, "required": required},
            },
        }
        for name, (properties, required) in TOOLS.items()
    ],
}
ACTIVE = AUTO.looked_for("")
LS = '{"command": "ls"}'
BASH = '[bash {"command":"ls"}]'
BOTH = '[bash {"command":"ls","timeout":5}]'
SHAPES = {
    "elements and JSON": (f"<use><name>bash</name><input>{LS}</input></use>", BASH),
    "over lines": (f"\n<use>\n  <name>bash</name>\n  <input>\n{LS}\n  </input>\n</use>\n", BASH),
    "an element for each": (
        "<use><tool>bash</tool><command>ls</command><timeout>5</timeout></use>",
        BOTH,
    ),
    "the tool's element": ("<bash>\n<command>\nls\n</command>\n</bash>", BASH),
    "the tool's element, JSON": (f"<bash>\n{LS}\n</bash>", BASH),
    "attributes": ('<bash command="ls" timeout="5"/>', BOTH),
    "an attribute for the name": (f'<zork:run tool="bash" id="c1">{LS}</zork:run>', BASH),
    "key and value": ('<act name="bash"><arg key="command" value="ls"/></act>', BASH),
    "keys in elements": (
        "<call><tool>bash</tool><key>command</key><value>ls</value><key>timeout</key>"
        "<value>5</value></call>",
        BOTH,
    ),
    "square brackets": (f"[run tool=bash]{LS}[/run]", BASH),
    "doubled brackets": (f"[[CALL bash]]{LS}[[/CALL]]", BASH),
    "BEGIN and END": (f'[ACT]\n{{"name": "bash", "arguments": {LS}}}\n[END_ACT]', BASH),
    "an END behind its word": (f"[ACT]\nbash {LS}\n[ACT_END]", BASH),
    "tokens": (f"<|do|>bash<|with|>{LS}<|done|>", BASH),
    "a name in a token": (f"<|do:bash|>{LS}<|done|>", BASH),
    "a key in a token": ("<|do|>bash<|arg:command|>ls<|/arg|><|done|>", BASH),
    "a function": (f"<act>bash({LS})</act>", BASH),
    "Python": ('<act>bash(command="ls", timeout=5)</act>', BOTH),
    "a literal of Python's": ("<act>{'tool': 'bash', 'args': {'command': 'ls',}}</act>", BASH),
    "a brace in a literal of Python's": (
        "<bash>{'command': 'echo }\"', 'timeout': 5}</bash>",
        '[bash {"command":"echo }\\"","timeout":5}]',
    ),
    "a word of files for the name": (
        "<use tool=user><name>Ann</name></use>",
        '[user {"name":"Ann"}]',
    ),
    "a value with a tag like its own": (
        '<do><use name="bash"><kw name="command">a <kw name="x"> b</kw></use></do>',
        '[bash {"command":"a <kw name=\\"x\\"> b"}]',
    ),
    "a prefix": (f"<act>functions.bash {LS}</act>", BASH),
    "a member for the name": (f'<run>{{"bash": {LS}}}</run>', BASH),
    "members at the top": ('<run>{"tool": "bash", "command": "ls"}</run>', BASH),
    "as the API has it": (
        '<run>[{"type": "function", "function": {"name": "bash", "arguments": '
        f"{json.dumps(LS)}}}}}]</run>",
        BASH,
    ),
    "a note that is an argument": (
        '<run>{"tool": "create", "type": "file", "path": "a"}</run>',
        '[create {"type":"file","path":"a"}]',
    ),
    "an argument like a note": (
        '<run>{"type": "call", "name": "create", "input": {"type": "a", "path": "b"}}</run>',
        '[create {"type":"a","path":"b"}]',
    ),
    "JSON in an attribute": (f"<calls><call name='bash' args='{LS}'/></calls>", BASH),
    "an opener of another format": (
        "<tool_call>\n<name>bash</name>\n<arguments>\n<command>ls</command>\n</arguments>"
        "\n</tool_call>",
        BASH,
    ),
    "an opener of another format within": (
        "I look.\n<bash>\n<parameter=command>ls</parameter>\n</bash>",
        f"I look.\n{BASH}",
    ),
    "CDATA": ("<act tool='bash'><command><![CDATA[ls]]></command></act>", BASH),
    "several lines": (
        "<act tool=write><path>a</path><content>\n<b>\n  x\n</b>\n</content></act>",
        '[write {"path":"a","content":"<b>\\n  x\\n</b>"}]',
    ),
    "indented": (
        "<act tool=write><path> a </path><content>    x</content></act>",
        '[write {"path":"a","content":"    x"}]',
    ),
    "a list": (
        '<act tool="search"><query>x</query><kinds>["a"]</kinds></act>',
        '[search {"query":"x","kinds":["a"]}]',
    ),
    "after text": (f"I look.\n\n<use tool=bash>{LS}</use>", f"I look.\n\n{BASH}"),
    "after a thought": (
        f"<think>\nI look.\n</think>\n<use tool=bash>{LS}</use>",
        f"<think>\nI look.\n</think>\n{BASH}",
    ),
    "after a fence": (f"```\n<a>\n```\n\n<use tool=bash>{LS}</use>", f"```\n<a>\n```\n\n{BASH}"),
}
TEXTS = {
    "Python": 'bash(command="ls")',
    "TOML": '[bash]\ncommand = "ls"',
    "INI": "[search]\nquery = x\n",
    "a log line": f"[bash] {LS}",
    "a log line with a level": f"<INFO> bash {LS}",
    "a log line of JSON": f'[INFO] {{"name": "bash", "arguments": {LS}}}',
    "a page": '<html>\n<body>\n<bash command="ls"/>\n</body>\n</html>',
    "a paragraph": f"<p>bash {LS}</p>",
    "a script": f'<script type="json">{{"name": "bash", "arguments": {LS}}}</script>',
    "code": '<pre>\n<bash command="ls"/>\n</pre>',
    "a form": '<form name="search" action="/x"><input name="query" value="y"></form>',
    "a meta tag": '<meta name="weather" city="Rome"/>',
    "HTML's search": "<search>\n<form><input></form>\n</search>",
    "HTML's search with a field": '<search query="x">\n<input/>\n</search>',
    "no argument": "<finish/>",
    "no argument, required": "<bash/>",
    "none is required": "<weather></weather>",
    "a text between tags": "<bash>ls -la</bash>",
    "a required argument is missing": "<use><name>bash</name><timeout>5</timeout></use>",
    "an argument twice": "<bash><command>ls</command><command>pwd</command></bash>",
    "a member twice": '<bash>{"command": "ls", "command": "pwd"}</bash>',
    "an argument that is not declared": "<bash><command>ls</command><shell>sh</shell></bash>",
    "a member that is not declared": '<bash>{"command": "ls", "shell": "sh"}</bash>',
    "an attribute that says more": '<bash command="ls" shell="sh"/>',
    "another type": '<use tool="read"><path>a</path><limit>many</limit></use>',
    "a text beside": "<bash>Run <command>ls</command></bash>",
    "escaped": "<bash><command>a &amp;&amp; b</command></bash>",
    "a value of its own": "<bash><command><value>ls</value></command></bash>",
    "text follows": '<bash command="ls"/>\nlists.',
    "text is before": 'It is <bash command="ls"/>',
    "two": '<bash command="ls"/>\n<bash command="pwd"/>',
    "two in one": '<do><bash command="ls"/><read path="a"/></do>',
    "two names": f"<use><name>bash</name><tool>read</tool>{LS}</use>",
    "an END behind another word": f"[ACT]\nbash {LS}\n[RUN_END]",
    "an END alone": f"[ACT_END]\nbash {LS}",
    "an end is missing": "<use><name>bash</name><command>ls</command>",
    "another end": "<use><name>bash</name><command>ls</command></call>",
    "another end, then an argument": (
        '<do><use name="bash"><kw name="command">ls</arg><kw name="timeout">5</kw></use></do>'
    ),
    "an end is missing before an argument": ("<do tool=bash><kw=command>ls<kw=timeout>5</kw></do>"),
    "an end too many": "<bash><command>ls</command></bash></use>",
    "half JSON": '<bash>{"command": "ls"</bash>',
    "the name of none": f"<use><name>shell</name><input>{LS}</input></use>",
    "another case": '<BASH command="ls"/>',
    "a fence": f"```xml\n<use tool=bash>{LS}</use>\n```",
    "a fence that is open": f"```\n<use tool=bash>{LS}</use>",
    "a quoted line": f"> <use tool=bash>{LS}</use>",
    "an item": f"- <use tool=bash>{LS}</use>",
    "indented": f"    <use tool=bash>{LS}</use>",
    "inline code": f"`<use tool=bash>{LS}</use>`",
    "a comment": f"<!--\n<use tool=bash>{LS}</use>\n-->",
    "an XML document": f'<?xml version="1.0"?>\n<use tool="bash">{LS}</use>',
    "a configuration": '<tools>\n<tool name="bash" command="ls"/>\n<tool name="read"/>\n</tools>',
    "a server": '<servers>\n<server name="bash" command="ls"/>\n</servers>',
    "a result": f'<tool_result tool="bash">{LS}</tool_result>',
    "a transcript": f"<|user|>\nbash\n<|assistant|>{LS}",
    "a result in one word": '<ToolResult tool="bash"><command>ls</command></ToolResult>',
    "a result by its type": f'<block type="tool_result"><name>bash</name>{LS}</block>',
    "a result by a member": (
        '<block>{"type": "tool_result", "name": "bash", "input": {"command": "ls"}}</block>'
    ),
    "a result in a member": '<block>{"toolResult": {"name": "bash", "command": "ls"}}</block>',
    "a result by its token": f"<|from|>bash<|content|>{LS}",
    "an element of files": '<user name="Ann"/>',
    "an element of files in one": "<user>\n  <name>Ann</name>\n</user>",
    "a token of transcripts": '<|user|>{"name": "Ann"}',
    "a quotation": f"[quote=bash]{LS}[/quote]",
    "a rule": '<permissions>\n<deny tool="bash" command="rm -rf /"/>\n</permissions>',
    "a rule alone": '<deny tool="bash" command="rm -rf /"/>',
    "what to avoid": f'<never>{{"name": "bash", "arguments": {LS}}}</never>',
    "a component": '<Terminal shell="bash" command="npm install x"/>',
    "a snippet": "<run><language>bash</language><command>ls</command></run>",
    "a language in JSON": '<run>{"language": "bash", "command": "ls"}</run>',
    "an id": '<entity id="search"><query>x</query></entity>',
    "a key": "<map><key>search</key><query>x</query></map>",
    "a key in an attribute": '<property name="search" query="x"/>',
    "a route": '<Route name="read" path="/a"/>',
    "an example": "<example>\n<tool>bash</tool>\n<command>ls</command>\n</example>",
    "a log": "<log><tool>bash</tool><command>ls</command></log>",
    "a damaged call": (
        '<tool_call>{"name": "bash", "arguments": {"command": "echo "}" >> a"}}</tool_call>'
    ),
    "a literal with an expression": "<act>{'tool': 'bash', 'command': path}</act>",
    "a literal with a member twice": "<bash>{'command': 'ls', 'command': 'pwd'}</bash>",
    "a literal with a path of Windows": r"<read>{'path': 'C:\code\new'}</read>",
    "a literal with a quotation mark": "<bash>{'command': 'echo 'a''}</bash>",
    "a log line of a literal": "[INFO] {'name': 'bash', 'command': 'ls'}",
    "a configuration of a literal": "<config>{'bash': {'command': 'ls'}}</config>",
    "a link": "[bash](https://example.org)",
    "a reference": f"[1]: bash {LS}",
    "JSON": f'{{"tool": "bash", "args": {LS}}}',
    "a list of JSON": f'[["bash", {LS}]]',
    "placeholders": "<use><name>TOOL</name><input>{…}</input></use>",
    "a template": "<use><name>bash</name><input>{{ args }}</input></use>",
}


def meant(pieces: list[str], *, whole: bool = True) -> str:
    return gist(events_of(pieces, ACTIVE, REQUEST, whole=whole))


@pytest.mark.parametrize(("text", "wanted"), SHAPES.values(), ids=list(SHAPES))
def test_one_reading_is_a_call_however_it_is_cut(text: str, wanted: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert meant(pieces).strip() == wanted, pieces


def test_what_is_around_a_known_call_goes_with_it() -> None:
    text = f'<exchange><tool_call>{{"name": "bash", "arguments": {LS}}}</tool_call></exchange>'
    for pieces in ([text], *cuts_of(text)):
        assert meant(pieces) == BASH
    assert meant([f"{text}\nDone."]) == f"<exchange>[bash {LS}]</exchange>\nDone."


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_all_else_is_text_however_it_is_cut(text: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert meant(pieces) == text, pieces


@pytest.mark.parametrize("text", [each[0] for each in SHAPES.values()], ids=list(SHAPES))
def test_what_a_limit_has_cut_is_text(text: str) -> None:
    for pieces in ([text], list(text)):
        assert meant(pieces, whole=False) == text


@pytest.mark.parametrize("text", [each[0] for each in SHAPES.values()], ids=list(SHAPES))
def test_what_a_break_has_cut_is_not_sent(text: str) -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", ACTIVE)
    said = gist([*scanner.feed(text), *scanner.abandon()])
    assert "bash" not in said
    assert "command" not in said


def stream(text: str, finish: str | None = "stop", model: str = "my-model") -> bytes:
    deltas = [{"content": text[at : at + 4]} for at in range(0, len(text), 4)]
    chunks = [chunk(delta, model=model) for delta in deltas]
    return sse([*chunks, chunk({}, finish, model=model)] if finish else chunks, done=bool(finish))


CALL = SHAPES["after text"][0]


@pytest.mark.parametrize(
    ("more", "called"),
    [
        ({}, 1),
        ({"model": "kimi-k2.5"}, 1),
        ({"model": "deepseek-v4"}, 1),
        ({"model": "gpt-5.5"}, 0),
        ({"model": "claude-opus-5"}, 0),
        ({"tool_choice": "none"}, 0),
        ({"tools": []}, 0),
        ({"response_format": {"type": "json_object"}}, 0),
    ],
    ids=str,
)
def test_the_request_and_the_model_decide(more: dict[str, Any], called: int) -> None:
    request = REQUEST | more
    sent = stream(CALL, model=request["model"])
    got = repair(sent, request)
    assert len(read(got).calls) == called
    assert (got == sent) == (not called)


@pytest.mark.parametrize(
    ("formats", "called"), [("auto", 1), ("all", 1), ("qwen,glm", 0), ("qwen,unknown", 1)]
)
def test_the_option_decides(formats: str, called: int) -> None:
    choice = FormatChoice.of(formats)
    assert choice is not None
    got = repair(stream(CALL), REQUEST, RepairOptions(formats=choice))
    assert len(read(got).calls) == called


def test_a_reply_that_comes_whole_is_read_too() -> None:
    message = {"role": "assistant", "content": CALL}
    choices = [{"message": message, "finish_reason": "stop"}]
    body = json.dumps({"model": "my-model", "choices": choices}).encode()
    evidence = Evidence()
    got = repair_whole(body, DeclaredTools.of_request(REQUEST), RepairOptions(), evidence, 1)
    assert json.loads(got)["choices"][0]["finish_reason"] == "tool_calls"
    lines = evidence.lines()
    assert lines == [
        "repaired bash (unknown, shape unknown)",
        'shape unknown: <use tool="NAME">{KEY: VALUE}</use>',
    ]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ('<use "mine">{"bash": {"command": "ls"}}</use>', "<use VALUE>{NAME: {KEY: VALUE}}</use>"),
        ('<|do|>bash<|with|>command {"mine": {"b": 1}}', "<|do|>NAME<|with|>KEY VALUE"),
        ('[run tool=bash id="mine"]{"command": "ls"}', '[run tool="NAME" id="VALUE"]{KEY: VALUE}'),
    ],
)
def test_the_shape_on_record_has_no_name_and_no_value(text: str, shape: str) -> None:
    reader = MarkupReader(DeclaredTools.of_request(REQUEST))
    reader.read(text, ended=True)
    assert (reader.name, reader.shape) == ("bash", shape)


@pytest.mark.parametrize("finish", ["length", "content_filter", None])
def test_another_end_calls_nothing(finish: str | None) -> None:
    assert not read(repair(stream(CALL, finish), REQUEST)).calls


def test_it_is_no_call_beside_a_native_one() -> None:
    function = {"name": "bash", "arguments": '{"command": "pwd"}'}
    native = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    said = {"content": CALL}
    for deltas in ([said, native], [native, said]):
        sent = sse([*(chunk(delta, model="my-model") for delta in deltas), chunk({}, "stop")])
        got = read(repair(sent, REQUEST))
        assert (got.content, len(got.calls)) == (CALL, 1)


@pytest.mark.parametrize(
    "text",
    [
        *("<div>", "a\n<b>", "<5", "< 3", "[1", "[x](", "[link](http", "<Alice is here"),
        *("<think>\nI", "<think>\nHm", "[note]: x", "<b>word", "a\n\n[INFO] ls", "x < y", "<T>(x"),
        *("```\n<use tool=bash>", "<use> wo", "<use>{\n", '<use>{"a": 1}'),
    ],
)
def test_prose_and_pages_wait_for_a_word_or_two(text: str) -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", ACTIVE)
    for character in text + "q ":
        scanner.feed(character)
    assert scanner.undecided <= 2


@pytest.mark.parametrize("name", ["bash", "rm"])
def test_it_is_no_call_after_one_in_a_known_format_that_was_none(name: str) -> None:
    """What is quoted or of no tool: a text about calls may quote others, too."""
    known = f'`<tool_call>{{"name": "{name}", "arguments": {LS}}}</tool_call>` runs it.\n\n'
    for pieces in ([f"{known}<bash>{LS}</bash>"], *cuts_of(f"{known}<bash>{LS}</bash>")):
        assert meant(pieces) == "".join(pieces)


def test_a_call_that_is_too_long_is_text() -> None:
    text = f"<write><path>a</path><content>{'x' * 70_000}</content></write>"
    assert meant([text[at : at + 1000] for at in range(0, len(text), 1000)]) == text


def test_a_call_with_text_after_it_is_recorded() -> None:
    evidence = Evidence()
    sent = stream(f"{CALL}\nThat is it.")
    assert repair(sent, REQUEST, evidence=evidence) == sent
    assert "unknown shape" in "; ".join(evidence.lines())


NAMES = {"tool": "bash", "key": "command", "value": "ls"}
GENERATED = [
    "<{tool}>{value}</{tool}>",
    "<config>\n  <{tool}>\n    <{key}>{value}</{key}>\n    <sh>sh</sh>\n  </{tool}>\n</config>",
    "<ul>\n<li>{tool}: {key}={value}</li>\n</ul>",
    "<{tool} {key}='{value}'>text</{tool}>",
    "[{tool}]\n{key}={value}\n",
    "[[{tool}]]\nname = '{value}'\n",
    "[{tool}] {key}: {value}",
    "[12:00:01] {tool} {key}={value}",
    "[INFO] {tool}({key}={value})",
    "- name: {tool}\n  {key}: {value}\n",
    '{{"{tool}": {{"{key}": "{value}"}}}}',
    '[{{"tool": "{tool}", "{key}": "{value}"}}]',
    'Tool: {tool}\nInput: {{"{key}": "{value}"}}',
    "{tool}({key}='{value}')",
    "def {tool}({key}):\n    return [{key}]\n",
    "<Button onClick={{() => {tool}({key})}}>{value}</Button>",
    "<{tool}>: {key} {value}\n<user>: thanks",
    "<user> run {tool}\n<assistant> {key}",
    "$ {tool} {value}\n<{key}>\n",
    "> <{tool} {key}='{value}'/>",
    "usage: {tool} [-h] [{key}] <{value}>",
    "[{tool}](docs/{tool}.md) takes `{key}`.",
    "<a href='{value}'>{tool}</a>\n<b>{key}</b>",
    "<{tool}\n  {key}='{value}'\n  more='1'\n/>",
    "<!-- {tool} -->\n<{key}>{value}</{key}>\n",
    "<dl><dt>{tool}</dt><dd><{key}>{value}</{key}></dd></dl>",
]


def corpus() -> list[str]:
    """Prose, code, pages and documents, whole and in paragraphs; and texts with names of tools."""
    texts: list[str] = []
    for pattern in ("docs/*.md", "tests/documents/*.txt", "tests/clients/*.*", "tests/web/*.*"):
        for path in sorted(ROOT.glob(pattern)):
            if path.suffix in (".md", ".txt", ".py", ".mjs", ".html", ".json", ".yaml"):
                texts += re.split(r"\n\n(?=\S)", path.read_text())
    for path in sorted(ROOT.glob("addon/dragoman/repair/**/*.py")):
        texts += re.split(r"\n\n\n(?=\S)", path.read_text())
    for shape, (name, (properties, _)) in itertools.product(GENERATED, TOOLS.items()):
        for key in properties or ["key"]:
            texts.append(shape.format(tool=name, key=key, value="ls"))
    return texts
