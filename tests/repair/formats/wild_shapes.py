"""Shapes in which calls were seen as text, line by line: each with what a client gets of it.

`LINES` says by cause which rows a shape has: here, or in the table of another test, whose name
stands before the row's.  All run in each API in tests/bridge/test_leaks_in_every_api.py.  The tools
are those of `test_rare_formats`.
"""

from __future__ import annotations

from tests.repair.formats.test_deepseek import CB as CALL_BEGIN
from tests.repair.formats.test_deepseek import CE as CALL_END
from tests.repair.formats.test_deepseek import CSB as CALLS_BEGIN
from tests.repair.formats.test_deepseek import CSE as CALLS_END
from tests.repair.formats.test_deepseek import SEP
from tests.repair.formats.test_rare_formats import ATEM, BASH, BOTH, LS, OBJECT, WEATHER

TEXT = "="
"""It stays as it is."""
D = "｜DSML｜"


def dsml(bars: str = D, section: str = "tool_calls") -> str:
    """A call of DeepSeek's with these bars around the word, and such a section."""
    return (
        f'<{bars}{section}><{bars}invoke name="bash"><{bars}parameter name="command" string="true">'
        f"ls</{bars}parameter></{bars}invoke></{bars}{section}>"
    )


K3 = (
    '<|open|>call tool="bash" index="1"<|sep|><|open|>argument key="command" type="string"<|sep|>'
    "ls<|close|>argument<|sep|><|close|>call<|sep|>"
)
K3_TOOLS = f"<|open|>tools<|sep|>{K3}<|close|>tools<|sep|>"
QWEN_FIRST = "<parameter=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
QWEN_NAMED = "<name>bash\n</parameter>\n<parameter=command>\nls\n</parameter>\n</function>"
INVOKE = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
GLM = "<tool_call>bash{}</tool_call>"
PREFIX = "antml:"
TIMEOUT = f'<{D}parameter name="timeout" string="true">5</{D}parameter>'

WILD: dict[str, tuple[str, str]] = {
    # The tail
    "muse, an answer": ("<|start|>assistant to=user<|message|>So it is.<|eom|>", "So it is."),
    "a list, the first without arguments": (
        '[finish(), get_weather(location="Dublin", date="2025-04-14")]',
        "[finish {}]" + WEATHER,
    ),
    "qwen 3.8, several": (f"<tool_call>\n{QWEN_FIRST}\n{QWEN_FIRST}\n</tool_call>", BASH * 2),
    "qwen 3.8, several, no wrapper": (f"{QWEN_FIRST}\n{QWEN_FIRST}", BASH * 2),
    "qwen 3.8, a name's tag, no wrapper": (QWEN_NAMED, BASH),
    "a path of Windows has no end": (
        "<function=bash>\n<parameter=command>\nC:\\code\n",
        '[bash {"command":"C:\\\\code"}]',
    ),
    "tool_name alone": ('{"tool_name": "bash", "tool_input": {"command": "ls"}}', TEXT),
    "an opener lost behind a thought": (f"Hm.</think>{OBJECT}</tool_call>", f"Hm.</think>{BASH}"),
    "lfm2, marks in a string": (
        "<|tool_call_start|>[bash(command='sed -n '360,450p' a.py')]<|tool_call_end|>",
        """[bash {"command":"sed -n '360,450p' a.py"}]""",
    ),
    "a transcript": ('Tool: bash\nInput: {"command": "ls"}', TEXT),
    "Python in prose": ('I would run bash(command="ls") there.', TEXT),
    "tags so thin that a name is guessed": ("<call>ls</call>", TEXT),
    # The formats, and how hosts change them
    "dsml of v3.2": (dsml(section="function_calls"), BASH),
    "dsml of v4.1": (dsml("｜DSML｜ "), BASH),
    "dsml, doubled bars": (dsml("｜｜DSML｜｜"), BASH),
    "dsml, ASCII bars": (dsml("|DSML|"), BASH),
    "dsml, other bars": (dsml("‖DSML‖"), BASH),
    "dsml, blanks around bars": (dsml(" ｜ DSML ｜ "), BASH),
    "dsml, toolcalls": (dsml(section="toolcalls"), BASH),
    "dsml, an opener without its end": (dsml().replace("tool_calls><", "tool_calls<", 1), BASH),
    "dsml, a closer and no opener": (dsml().removeprefix(f"<{D}tool_calls>"), BASH),
    "dsml, no end of a parameter": (dsml().replace(f"</{D}parameter>", ""), BASH),
    "k3": (K3_TOOLS, BASH),
    "k3, json": (
        '<|open|>tools<|sep|><|open|>call tool="bash" index="1"<|sep|><|open|>json type="object"'
        f"<|sep|>{LS}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        BASH,
    ),
    "k3, markers thinned out": (K3_TOOLS.replace("<|sep|><|open|>call", "call"), BASH),
    "k3, blanks in markers": (K3_TOOLS.replace(">tools<", "> tools <"), BASH),
    "qwen, no opener": ("<function=bash><parameter=command>ls</parameter></function>", BASH),
    "qwen, no end of a parameter": (
        "<tool_call><function=bash><parameter=command>ls<parameter=timeout>5</parameter></function>"
        "</tool_call>",
        BOTH,
    ),
    "hermes, no end before the next": (f"<tool_call>{OBJECT}<tool_call>{OBJECT}", BASH * 2),
    "glm 5.3": (GLM.format(f">{LS}"), BASH),
    "mistral": (f"[TOOL_CALLS]bash[ARGS]{LS}", BASH),
    "mistral, its token gone": (f"bash[ARGS]{LS}", BASH),
    "harmony, glued": (
        f"<|channel|>commentary to=functions.bashjson<|message|>{LS}<|call|>",
        BASH,
    ),
    "k2, no marker before arguments": (
        f"<|tool_call_begin|>functions.bash:3 {LS} <|tool_call_end|>",
        BASH,
    ),
    "k2, arguments in a string": (
        '<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"{\\"command\\": \\"ls\\"}"'
        "<|tool_call_end|>",
        BASH,
    ),
    # Damaged calls
    "glm, no value's tag": (
        GLM.format("<arg_key>command</arg_key>ls</arg_value>"),
        BASH,
    ),
    "glm, a value's end before a key": (
        GLM.format(
            "<arg_key>command</arg_key><arg_value>ls</arg_value><arg_key>timeout</arg_key>5"
            "</arg_value>"
        ),
        BOTH,
    ),
    "glm, a name glued to its key": (
        "<tool_call>bashcommand</arg_key><arg_value>ls</arg_value></tool_call>",
        BASH,
    ),
    "qwen, another's tag": (
        '<tool_call><function=bash><parameter name="command">ls</parameter></function></tool_call>',
        BASH,
    ),
    "args": ('<tool_call>{"name": "bash", "args": {"command": "ls"}}</tool_call>', BASH),
    "input": ('<tool_call>{"name": "bash", "input": {"command": "ls"}}</tool_call>', BASH),
    "members at the top": ('<tool_call>{"name": "bash", "command": "ls"}</tool_call>', BASH),
    "args that are not declared": (
        '<tool_call>{"name": "bash", "args": {"x": 1}}</tool_call>',
        TEXT,
    ),
    "no JSON": ('<tool_call>{"name": "bash", "arguments": {"command": ls}}</tool_call>', TEXT),
    "a value that another tag closes": (INVOKE.replace("</parameter>", "</param>"), TEXT),
    "a value that its name closes": (INVOKE.replace("</parameter>", "</command>"), BASH),
    "an argument behind the call": (
        '<invoke name="bash"></invoke>ls</parameter></invoke>',
        TEXT,
    ),
    "dsml, a type against the schema": (
        dsml().replace(f"</{D}invoke>", f"{TIMEOUT}</{D}invoke>"),
        BOTH,
    ),
    # Families
    "gemma, plain marks": ('<|tool_call>call:bash{command:"ls"}<tool_call|>', BASH),
    "gemma, JSON": (f"<|tool_call>call:bash({LS})<tool_call|>", BASH),
    "gemma, round brackets": ('<|tool_call>call:bash(command: "ls")<tool_call|>', BASH),
    "gemma, another opener": ('<|tool_call|>call:bash{command:<|"|>ls<|"|>}<tool_call|>', BASH),
    "JSON": (OBJECT, BASH),
    "JSON, parameters": ('{"name": "bash", "parameters": {"command": "ls"}}', BASH),
    "JSON, a list": (f"[{OBJECT}, {OBJECT}]", BASH * 2),
    "JSON in a fence": (f"```json\n{OBJECT}\n```", BASH),
    "tools": (f"<tools>{OBJECT}</tools>", BASH),
    "python_tag": (f"<|python_tag|>{OBJECT}", BASH),
    "nemotron": (f"<TOOLCALL>[{OBJECT}]</TOOLCALL>", BASH),
    "lfm2": ('<|tool_call_start|>[bash(command="ls", timeout=5)]<|tool_call_end|>', BOTH),
    "minimax behind proxies": (
        '[TOOL_CALL]\n{tool => "bash", args => {\n  --command "ls"\n}}\n[/TOOL_CALL]',
        BASH,
    ),
    "invoke": (INVOKE, BASH),
    "invoke, a prefix": (
        INVOKE.replace("<", f"<{PREFIX}").replace(f"<{PREFIX}/", f"</{PREFIX}"),
        BASH,
    ),
    "invoke after a lone line": (f"So.\n\ncourt\n{INVOKE}", f"So.\n{BASH}"),
    "seed": (
        "<seed:tool_call><function=bash><parameter=command>ls</parameter></function>"
        "</seed:tool_call>",
        BASH,
    ),
    # What was seen after that
    "composer": (
        f"I look.{CALLS_BEGIN}{CALL_BEGIN}\nbash\n{SEP}command\nls\n{SEP}timeout\n5\n{CALL_END}"
        f"{CALLS_END}",
        f"I look.{BOTH}",
    ),
    "composer, several": (
        f"{CALLS_BEGIN}{CALL_BEGIN}bash{SEP}command\nls{CALL_END}\n{CALL_BEGIN}finish{SEP}{CALL_END}"
        f"{CALLS_END}",
        BASH + "[finish {}]",
    ),
    "composer, an argument that is not declared": (
        f"{CALL_BEGIN}bash{SEP}command\nls\n{SEP}shell\nsh\n{CALL_END}",
        TEXT,
    ),
    "composer, an argument twice": (
        f"{CALL_BEGIN}bash{SEP}command\nls\n{SEP}command\nrm\n{CALL_END}",
        TEXT,
    ),
    "composer, a token in a value": (
        f"{CALL_BEGIN}bash{SEP}command\necho {CALL_END}\n{CALL_END}{CALLS_END}",
        TEXT,
    ),
    "composer, a token in a value, and more of it": (
        f"{CALL_BEGIN}bash{SEP}command\necho {CALL_END} a\n{CALL_END}{CALLS_END}",
        TEXT,
    ),
    "composer, the end of a section in a value": (
        f"{CALL_BEGIN}bash{SEP}command\necho {CALLS_END}\n{CALL_END}{CALLS_END}",
        TEXT,
    ),
    "composer, a token is lost": (
        f"{CALL_BEGIN}bash{SEP}command\nls\ntimeout\n5\n{CALL_END}{CALLS_END}",
        TEXT,
    ),
    "composer, half a token is lost": (
        f"{CALL_BEGIN}bash{SEP}command\nls\n{SEP[:8]}timeout\n5\n{CALL_END}{CALLS_END}",
        TEXT,
    ),
    "composer, no end": (f"{CALL_BEGIN}bash{SEP}command\nls\n", TEXT),
    "mistral's, another token": (f"So.\n[TOOL_CALL]bash[ARGS]{LS}", f"So.\n{BASH}"),
    "gemma, call before JSON": (f"<|tool_call>call:{OBJECT}<tool_call|>", BASH),
    "hermes, a bar in its tag": (f"<tool_call|>{OBJECT}</tool_call>", BASH),
    "lm studio, another end": (f"[TOOL_REQUEST]{OBJECT}[TOOL_REQUEST_END]", BASH),
    "lm studio, a name before JSON": (
        f"So.\n[TOOL_REQUEST]\nbash {LS}\n[TOOL_REQUEST_END]",
        f"So.\n{BASH}",
    ),
    "lm studio, the name in brackets": (f"[bash]\n{LS}\n[END_TOOL_REQUEST]", BASH),
    "dsml, the name in a parameter's tag": (
        f'<{D} parameter name="bash">\n <{D} parameter name="command" string="true">ls'
        f"</{D} parameter>\n</{D} invoke>",
        BASH,
    ),
    "dsml, the name in the tag of the first parameter of a section": (
        f'<{D}tool_calls>\n<{D}parameter name="bash">\n<{D}parameter name="command" string="true">'
        f"ls</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>",
        BASH,
    ),
    "dsml, a parameter alone": (f'<{D}parameter name="bash">ls</{D}parameter>', TEXT),
    "muse, no role": (f" to=bash<|message|>{ATEM}", BASH),
    "JSON, the second without arguments": (f'{OBJECT}\n{{"name": "finish"}}', BASH + "[finish {}]"),
    "JSON, the second lacks some": (f'{OBJECT}\n{{"name": "bash"}}', TEXT),
    "calling tool": (f"[Calling tool: bash({LS})]", BASH),
    "glm, JSON": (f"<tool_call>{OBJECT}</tool_call>", BASH),
}

LINES: dict[str, tuple[str, ...]] = {
    "Muse": (
        *("rare: atem", "rare: atem without its channel", "rare: atem indented"),
        *("rare: atem, a thought", "wild: muse, an answer"),
    ),
    "MiniCPM and the like": (
        *("rare: minicpm", "rare: minicpm with CDATA", "rare: minicpm in a section"),
        *("rare: minicpm, several", "rare: dots"),
    ),
    "Python lists": (
        *("rare: a list", "rare: a list of several", "wild: a list, the first without arguments"),
        *("rare: llama 4", "rare: function_calls", "rare: a fence", "rare: a fence after text"),
        *("rare: tool_call", "rare: tool_call per line"),
    ),
    "JSON between markers": (
        *("rare: longcat", "rare: gigachat", "rare: gigachat's words", "rare: function_call"),
        *("rare: hunyuan a13b", "rare: minimax m1", "rare: cohere", "rare: internlm"),
        *("rare: apertus", "rare: phi-4-mini", "rare: phi-4-mini, several", "rare: granite 20b"),
    ),
    "spellings of what is there": (
        *("rare: hunyuan", "rare: hunyuan with a suffix", "rare: step", "rare: functiongemma"),
        *("rare: iquest", "rare: k2 horizon", "rare: content_invoke"),
    ),
    "attributes": ("rare: attributes", "rare: seed with names", "rare: minicpm in a section"),
    "Qwen 3.8, the name in the first parameter": (
        *("rare: qwen, the name first", "rare: qwen, the name first, alone"),
        *("wild: qwen 3.8, several", "wild: qwen 3.8, several, no wrapper"),
        *("rare: qwen, the name in a tag", "wild: qwen 3.8, a name's tag, no wrapper"),
    ),
    "the last value has no end": (
        *("rare: no end", "rare: no end, one", "wild: a path of Windows has no end"),
    ),
    "GLM, keys doubled or misplaced": (
        *("rare: glm, a key's end twice", "rare: glm, a key's start twice"),
        *("rare: glm, another tag for a key's", "rare: glm, no tag for a key's"),
    ),
    "JSON spelled otherwise": (
        *("rare: tool_name", "wild: tool_name alone", "rare: tool and args"),
        *("rare: toolcall and an element", "rare: toolcall, over lines", "rare: function="),
        *("rare: function=, no end", "wild: an opener lost behind a thought"),
    ),
    "words of clients": (
        "rare: tool:",
        "rare: tool:, twice",
        "rare: tool use",
        "rare: calling tool",
    ),
    "self-closing": ("rare: dsml, self-closing", "rare: invoke, self-closing"),
    "strings with marks inside": (
        *("wild: lfm2, marks in a string", "rare: marks in a string"),
        *("rare: gemma, marks in a string", "rare: gemma without call"),
    ),
    "rests around a right call": (
        *("rare: empty wrapper", "rare: tool_calls around glm", "rare: a misspelt closer"),
        *("rare: another's closer", "rare: dsml's closer", "rare: end of sentence"),
    ),
    "left as text on purpose": (
        *("wild: a transcript", "wild: Python in prose"),
        "wild: tags so thin that a name is guessed",
    ),
}
