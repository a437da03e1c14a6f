"""Calls in formats, dialects and spellings that few models write, each as it was seen: a table."""

from __future__ import annotations

import pytest

from dragoman.repair.events import LeftAsText, ScanEvent
from dragoman.repair.formats.formats_by_family import AUTO
from tests.repair.formats.turns import cuts_of, events_of, gist

TOOLS = {
    "bash": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "get_weather": {"location": {"type": "string"}, "date": {"type": "string"}},
    "exec_command": {"cmd": {"type": "string"}},
    "finish": {},
    "grep": {"pattern": {"type": "string"}, "-A": {"type": "integer"}, "-n": {"type": "boolean"}},
}
REQUIRED = {"bash": ["command"], "get_weather": ["location"], "exec_command": ["cmd"]}
REQUEST = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": REQUIRED.get(name, []),
                },
            },
        }
        for name, properties in TOOLS.items()
    ]
}
ACTIVE = AUTO.looked_for("")
LS = '{"command": "ls"}'
OBJECT = f'{{"name": "bash", "arguments": {LS}}}'
BASH = '[bash {"command":"ls"}]'
BOTH = '[bash {"command":"ls","timeout":5}]'
WEATHER = '[get_weather {"location":"Dublin","date":"2025-04-14"}]'
ATEM = (
    '<atem:function_calls>\n<atem:invoke name="bash">\n<atem:parameter name="command">ls'
    "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>"
)
HY3 = (
    "<tool_calls{0}><tool_call{0}>bash<tool_sep{0}>\n<arg_key{0}>command</arg_key{0}>\n"
    "<arg_value{0}>ls</arg_value{0}>\n</tool_call{0}>\n</tool_calls{0}>"
)
PARAM = (
    '<function name="bash"><param name="command">ls</param>'
    '<param name="timeout">5</param></function>'
)
G = "｜GCML｜"
GCML = (
    f'<{G}tool_calls><{G}invoke name="bash"><{G}parameter name="command" string="true">ls'
    f'</{G}parameter><{G}parameter name="timeout" string="false">5</{G}parameter></{G}invoke>'
    f"</{G}tool_calls>"
)
M3 = "]<]minimax[>["


def plamo(word: str) -> str:
    return f"<|plamo:{word}:plamo|>"


def plamo_call(name: str, arguments: str, before: str = "") -> str:
    named = f"{plamo('begin_tool_name')}{name}{plamo('end_tool_name')}"
    given = f"{plamo('begin_tool_arguments')}{before}{arguments}{plamo('end_tool_arguments')}"
    return f"{plamo('begin_tool_request')}{named}{given}{plamo('end_tool_request')}"


PLAMO = plamo("begin_tool_requests"), plamo("end_tool_requests")
SOLAR = (
    "<|tool_call:start|>bash\n<|tool_arg:start|>command<|tool_arg:value|>ls<|tool_arg:end|>\n"
    "<|tool_arg:start|>timeout<|tool_arg:value|>5<|tool_arg:end|>\n<|tool_call:end|>"
)
SHAPES = {
    # Between tags.
    "gigachat 3.5": (f"I look.{GCML}", "I look." + BOTH),
    "gigachat 3.5, no arguments": (
        f'<{G}tool_calls><{G}invoke name="finish"></{G}invoke></{G}tool_calls>',
        "[finish {}]",
    ),
    "iquest, between tags": (
        "<iquest_tool_call>bash<arg_key>command</arg_key><arg_value>ls</arg_value>"
        "</iquest_tool_call>",
        BASH,
    ),
    "iquest coder": (
        "I look.\n<iquestcoder_tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls"
        "</arg_value>\n<arg_key>timeout</arg_key><arg_value>5</arg_value></iquestcoder_tool_call>",
        "I look.\n" + BOTH,
    ),
    "iquest coder, no arguments": (
        "<iquestcoder_tool_call>finish</iquestcoder_tool_call>",
        "[finish {}]",
    ),
    "grok": (
        'So:\n<xai:function_call name="bash">\n<parameter name="command">ls</parameter>\n'
        "</xai:function_call>",
        "So:\n" + BASH,
    ),
    "deepseek with ASCII bars": (
        f"<|tool_calls_begin|><|tool_call_begin|>bash<|tool_sep|>{LS}<|tool_call_end|>"
        "<|tool_calls_end|>",
        BASH,
    ),
    "deepseek with ASCII bars, in a fence": (
        "<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>bash\n```json\n"
        f"{LS}\n```<|tool_call_end|><|tool_calls_end|>",
        BASH,
    ),
    "minimax m3, keys with a dash": (
        f'{M3}<tool_call>\n{M3}<invoke name="grep">\n{M3}<pattern>x{M3}</pattern>\n'
        f"{M3}<-A>3{M3}</-A>\n{M3}<-n>true{M3}</-n>\n{M3}</invoke>\n{M3}</tool_call>",
        '[grep {"pattern":"x","-A":3,"-n":true}]',
    ),
    "solar open 2": (f"I look.{SOLAR}", "I look." + BOTH),
    "solar open 2, several": (
        f"{SOLAR}\n<|tool_call:start|>finish\n<|tool_call:end|>",
        BOTH + "[finish {}]",
    ),
    "plamo": (
        f"I look.{plamo_call('bash', LS, '<|plamo:msg|>').join(PLAMO)}<|plamo:tag|>",
        "I look." + BASH,
    ),
    "plamo, several": (
        (plamo_call("bash", LS) + plamo_call("finish", "{}")).join(PLAMO),
        BASH + "[finish {}]",
    ),
    "llama, a sign after the name": (f"<function=bash={LS}</function>", BASH),
    "llama, a comma after the name": (f"<function=bash,{LS}</function>", BASH),
    "llama, brackets after the name": (f"<function=bash[]{LS}</function>", BASH),
    "llama, a slash before the name": (f"<function/bash>{LS}</function>", BASH),
    "minimax:toolcall": (
        '<minimax:toolcall>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n'
        "</invoke>\n</minimax:toolcall>",
        BASH,
    ),
    "dsml, a section of another name": (
        '<｜DSML｜tool_ccalls>\n<｜DSML｜invoke name="bash">\n'
        '<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>\n</｜DSML｜inv>\n'
        "</｜DSML｜tool_cs>",
        BASH,
    ),
    "hunyuan 4": (
        "<tool_calls>\n  <tool_call>bash<arg_key>command</arg_key><arg_value>ls</arg_value>"
        "</tool_call></tool_calls>",
        BASH,
    ),
    "atem": (f"<|start|>assistant to=bash<|message|>{ATEM}<|eom|>", BASH),
    "atem without its channel": (ATEM, BASH),
    "atem indented": (ATEM.replace("\n<", "\n  <"), BASH),
    "atem, a thought": ("<|start|>assistant to=self<|message|>Hm.<|eom|>" + ATEM, "«Hm.»" + BASH),
    "step": (
        '<steptml:toolcall><steptml:invoke name="bash"><steptml:parameter name="command">ls'
        "</steptml:parameter></steptml:invoke></steptml:toolcall>",
        BASH,
    ),
    "minicpm": (PARAM, BOTH),
    "minicpm with CDATA": (PARAM.replace(">ls<", "><![CDATA[ls]]><"), BOTH),
    "minicpm in a section": (f"<tool_call>\n{PARAM}\n</tool_call>", BOTH),
    "minicpm, several": (f"<tool_call>\n{PARAM}\n{PARAM}\n</tool_call>", BOTH * 2),
    "dots": (f"<dots_function_call>\n{PARAM}\n</dots_function_call>", BOTH),
    "seed with names": (
        '<seed:tool_call>\n  <function name="bash">\n    <parameter name="command" string="true">ls'
        '</parameter>\n    <parameter name="timeout">5</parameter>\n  </function>'
        "\n</seed:tool_call>",
        BOTH,
    ),
    "qwen, the name first": (
        "<tool_call>\n<parameter=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
        "\n</tool_call>",
        BASH,
    ),
    "qwen, the name first, alone": (
        "<parameter=bash>\n<parameter=command>\nls\n</parameter>\n</function>",
        BASH,
    ),
    "qwen, the name in a tag": (
        "<tool_call>\n<name>bash\n</parameter>\n<parameter=command>\nls\n</parameter>"
        "\n</function>\n"
        "</tool_call>",
        BASH,
    ),
    "hunyuan": (HY3.replace("{0}", ""), BASH),
    "hunyuan with a suffix": (HY3.replace("{0}", ":opensource"), BASH),
    "glm, a key's end twice": (
        "<tool_call>bash<arg_key>command</arg_key></arg_key><arg_value>ls</arg_value></tool_call>",
        BASH,
    ),
    "glm, a key's start twice": (
        "<tool_call>bash<arg_key><arg_key>command</arg_key><arg_value>ls</arg_value></tool_call>",
        BASH,
    ),
    "glm, another tag for a key's": (
        "<tool_call>bash<tool_call>command</arg_key><arg_value>ls</arg_value></tool_call>",
        BASH,
    ),
    "glm, no tag for a key's": (
        "<tool_call>bash command</arg_key><arg_value>ls</arg_value></tool_call>",
        BASH,
    ),
    "dsml, self-closing": (
        '<｜DSML｜tool_calls><｜DSML｜invoke name="finish"/></｜DSML｜tool_calls>',
        "[finish {}]",
    ),
    "invoke, self-closing": ('<invoke name="finish" />', "[finish {}]"),
    # JSON between markers.
    "longcat": (f"<longcat_tool_call>{OBJECT}</longcat_tool_call>", BASH),
    "gigachat": (f"<|function_call|>{OBJECT}", BASH),
    "gigachat's words": (f"<|message_sep|>\n\nfunction call<|role_sep|>\n{OBJECT}", BASH),
    "function_call": (f"<function_call>{OBJECT}</function_call>", BASH),
    "granite 20b": (f"<function_call> {OBJECT}", BASH),
    "minimax m1": (f"<tool_calls>\n{OBJECT}\n{OBJECT}\n</tool_calls>", BASH * 2),
    "cohere": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "bash", '
        '"parameters": {"command": "ls"}}]'
        "<|END_ACTION|>",
        BASH,
    ),
    "internlm": (f"<|action_start|><|plugin|>\n{OBJECT}<|action_end|>", BASH),
    "apertus": (
        f'<|tools_prefix|>[{{"bash": {LS}}}, {{"finish": {{}}}}]<|tools_suffix|>',
        BASH + "[finish {}]",
    ),
    "iquest": (f"<iquest_tool_call>{OBJECT}</iquest_tool_call>", BASH),
    "k2 horizon": (f"<ifm|tool_call>{OBJECT}</ifm|tool_call>", BASH),
    "content_invoke": (f"<|content_invoke_tool_json|>{OBJECT}", BASH),
    "tool_name": (
        '<tool_call>{"tool_name": "bash", "tool_input": {"command": "ls"}}</tool_call>',
        BASH,
    ),
    "tool and args": ('[TOOL_CALL] {"tool": "bash", "args": {"command": "ls"}} [/TOOL_CALL]', BASH),
    "attributes": (f'<tool_call id="call_1" name="bash">\n{LS}\n</tool_call>', BASH),
    "function=": (f'<tool_call>\n{{"function=bash","arguments":{LS}}}\n</tool_call>', BASH),
    "function=, no end": (f'<tool_call>\n{{"function=bash","arguments":{LS}}}', BASH),
    "function, a text": (f'<tool_call>{{"function": "bash", "arguments": {LS}}}</tool_call>', BASH),
    "toolcall": (f"<toolcall>{OBJECT}</toolcall>", BASH),
    "tool-call": (f"<tool-call>\n{OBJECT}\n</tool-call>", BASH),
    "functioncall": (f"<functioncall> {OBJECT}<|endoftext|>", BASH),
    "the end of a turn": (f"<tool_call>{OBJECT}</tool_call></s>", BASH),
    "tool_request": (f"So.\n[TOOL_REQUEST]{OBJECT}[END_TOOL_REQUEST]", "So.\n" + BASH),
    "tool_request, over lines": (f"[TOOL_REQUEST]\n{OBJECT}\n[END_TOOL_REQUEST]", BASH),
    "tool_request in angles": (
        f"So.\n<<<TOOL_CALL>>>\n{OBJECT}\n<<<END_TOOL_CALL>>>",
        "So.\n" + BASH,
    ),
    "toolcall and an element": (f"<toolcall><bash>{LS}</bash></toolcall>", BASH),
    "toolcall, over lines": (f"<toolcall>\n<bash>\n{LS}\n</bash>\n</toolcall>", BASH),
    "hunyuan a13b": (f"<answer><tool_calls>[{OBJECT}]</tool_calls></answer>", BASH),
    "hunyuan a13b, over lines": (
        f"<answer>\n<tool_calls>\n[{OBJECT}, {OBJECT}]\n</tool_calls>\n</answer>",
        BASH * 2,
    ),
    "hunyuan a13b, indented": (
        f"<answer>\n  <tool_calls>\n  [{OBJECT}, {OBJECT}]\n  </tool_calls>\n</answer>",
        BASH * 2,
    ),
    # All of a text.
    "phi-4-mini": (f"functools[{OBJECT}]", BASH),
    "phi-4-mini, several": (f"functools[{OBJECT}, {OBJECT}]\n", BASH * 2),
    "glm-4": (f"bash\n{LS}", BASH),
    "functionary": (f">>>bash\n{LS}", BASH),
    "glm-4 with its token": (f"\nbash\n{LS}\n<|observation|>", BASH),
    "a list": ('[bash(command="ls")]', BASH),
    "a list of several": (
        '[get_weather(location="Dublin", date="2025-04-14"),\n finish()]\n',
        WEATHER + "[finish {}]",
    ),
    "a fence": ('```tool_code\nbash(command="ls")\n```', BASH),
    "a fence after text": (
        'I look.\n```tool_code\n[bash(command="ls")]\n```\n',
        "I look.\n" + BASH,
    ),
    "a fence that prints": ('```tool_code\nprint(bash(command="ls"))\n```', BASH),
    "a fence that prints, with a module": (
        'So:\n```tool_code\nprint(default_api.bash(command="ls", timeout=5))\n```',
        "So:\n" + BOTH,
    ),
    # Python.
    "llama 4": (
        '<|python_start|>[bash(command="ls"), finish()]<|python_end|>',
        BASH + "[finish {}]",
    ),
    "function_calls": ('<function_calls>bash(command="ls")</function_calls>', BASH),
    "tool_call": ('<tool_call>bash(command="ls", timeout=5)\n</tool_call>', BOTH),
    "tool_call per line": (
        '<tool_call>bash(command="ls", timeout=5)\n<tool_call>bash(command="ls", timeout=5)',
        BOTH * 2,
    ),
    "gemma, the end of its turn": ('<|tool_call>call:bash{command:<|"|>ls<|"|>}<turn|>', BASH),
    "functiongemma": (
        "<start_function_call>call:bash{command:<escape>ls<escape>,timeout:5}<end_function_call>",
        BOTH,
    ),
    "gemma without call": ('<|tool_call>:bash{command:<|"|>ls<|"|>}<tool_call|>', BASH),
    "marks in a string": (
        "<|python_start|>[bash(command='sed -n '360,450p' a.py', timeout=5)]<|python_end|>",
        """[bash {"command":"sed -n '360,450p' a.py","timeout":5}]""",
    ),
    "gemma, marks in a string": (
        '<|tool_call>call:get_weather{location:"a "b" c",date:"d"}<tool_call|>',
        '[get_weather {"location":"a \\"b\\" c","date":"d"}]',
    ),
    # Tokens of Python's in JSON.
    "trailing commas": (
        '<tool_call>{"name": "bash", "arguments": {"command": "ls", "timeout": 5,},}</tool_call>',
        BOTH,
    ),
    "a word of Python's": (
        '<tools>{"name": "grep", "arguments": {"-n": True, "pattern": "it\'s \\"a\\""}}</tools>',
        '[grep {"-n":true,"pattern":"it\'s \\"a\\""}]',
    ),
    "quotation marks of Python's": (
        "<tool_call>{'name': 'bash', 'arguments': {'command': 'ls', 'timeout': 5,}}</tool_call>",
        BOTH,
    ),
    # Words of clients.
    "tool:": (f"[tool:bash] {LS}", BASH),
    "tool:, twice": (f"[tool:bash] {LS}\n\n[tool:bash] {LS}\n", BASH * 2),
    "tool use": (f"[Tool Use: bash({LS})]", BASH),
    "calling tool": (f"Calling tool: bash({LS})", BASH),
    # Rests of markup.
    "empty wrapper": (
        '<tool_call>\n<invoke name="bash">\n<parameter name="command">ls</parameter>'
        "\n</invoke>\n</tool_call>",
        BASH,
    ),
    "tool_calls around glm": (
        "<tool_calls>\n<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>"
        "ls</arg_value>\n</tool_call>\n"
        "</tool_calls>",
        BASH,
    ),
    "end of sentence": (f"<tool_call>{OBJECT}</tool_call><｜end▁of▁sentence｜>", BASH),
    "the end of Gemma's text": ('<|tool_call>call:bash{command:"ls"}<tool_call|><eos>', BASH),
    "a misspelt closer": (f"<tool_call>{OBJECT}</tool_call>\n</_call>", BASH),
    "a second closer": (f"<tool_call>{OBJECT}</tool_call>\n</tool_call>", BASH),
    "another's closer": (f"<tool_call>{OBJECT}</tool_call></function_invocation>", BASH),
    "dsml's closer": (
        '<｜DSML｜tool_calls><｜DSML｜invoke name="bash">'
        '<｜DSML｜parameter name="command" string="true">ls'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls></｜DSML｜tool_cs>",
        BASH,
    ),
    # The last value has no end.
    "no end": ("<function=bash>\n<parameter=command> ls\n<parameter=timeout> 5", BOTH),
    "no end, one": ("<function=bash>\n<parameter=command>\nls\n", BASH),
}


TEXTS = {
    "markers by their names": (
        "A call of LongCat begins with <longcat_tool_call> and ends with </longcat_tool_call>.\n"
        "GigaChat has <|function_call|>, Cohere <|START_ACTION|> and <|END_ACTION|>.\n"
        "InternLM: <|action_start|><|plugin|>, Apertus: <|tools_prefix|>, others <function_call>."
    ),
    "documentation": (
        '# Tools\n\n- `<function_call>{"name": "bash", "arguments": {}}</function_call>`\n'
        '- `<longcat_tool_call>{"name": …}</longcat_tool_call>`, which the parser reads\n\n'
        "```xml\n<tool_calls>"
        '[{"name": "bash", "arguments": {"command": "ls"}}]</tool_calls>\n'
        "```\nThe list may have several."
    ),
    "more markers by their names": (
        f"GigaChat 3.5 begins with\n<{G}tool_calls>, LM Studio with [TOOL_REQUEST] and\n"
        "[END_TOOL_REQUEST], or <tool-call>.\n"
        f"`{GCML}` is a call; in a fence:\n\n```\n[TOOL_REQUEST]{OBJECT}"
        "[END_TOOL_REQUEST]\n```\nSo."
    ),
    "a fence that prints more": '```tool_code\nprint(1)\nprint(bash(command="ls"))\n```',
    "a fence that prints in a fence": '````\n```tool_code\nprint(bash(command="ls"))\n```\n````',
    "a template": '<function_call>{"name": {{ name }}, "arguments": {{ args }}}</function_call>',
    "tools that nobody declared": (
        '<tool_calls>[{"name": "rm", "arguments": {"path": "/"}}]</tool_calls> and '
        '[tool:rm] {"path": "/"}\n[Tool Use: rm({"path": "/"})] Calling tool: rm({"path": "/"})'
    ),
    "tags by their names": (
        'Muse writes <atem:function_calls> and <atem:invoke name="bash"> before its parameters.\n'
        'MiniCPM has <function name="bash"> with <param name="command"> in it, Step\n'
        '<steptml:invoke name="bash">. A header is <|start|>assistant to=bash.'
    ),
    "tags in code": (
        '```xml\n<function name="bash"><param name="command">ls</param></function>\n```\nand '
        '`<invoke name="finish"/>`, or `<atem:invoke name="finish"/>`.'
    ),
    "another language's tags": (
        '<function name="bash" returns="int">It runs.</function>\n<function name="main">\n'
        '  <param name="argc" type="int"/>\n</function>\n'
        '<tool_call>\n<function name="x"></function>'
    ),
    "tags of more": (
        "Hunyuan writes <tool_calls><tool_call>NAME<tool_sep> and <arg_key:opensource>; Qwen 3.8\n"
        "<parameter=bash> where <function=bash> belongs, and <tool_call><name>bash after it."
    ),
    "calls of Python": (
        "It writes <tool_call>bash(command) and <function_calls>bash(x, y)</function_calls>, then\n"
        '`<tool_call>bash(command="ls")`, or <|python_start|> before [bash(command="ls")].'
    ),
    "all of a text, and more": (
        f'functools[{OBJECT}]\nis what Phi-4 writes, [bash(command="ls")] Llama 4, and GLM-4\n'
        f"bash\n{LS}"
    ),
    "a list in a sentence": '[bash(command="ls")] is a list of calls.',
    "a list after text": 'So:\n[bash(command="ls")]',
    "a link": '[bash(command="ls")](https://example.org)',
    "a list of what is no argument": '[bash("ls"), bash(command), bash(timeout=5)]',
    "a list in code": '`[bash(command="ls")]`',
    "a call alone": 'bash(command="ls")',
    "a name and JSON": f"bash\n{LS}\nlists files",
    "a name and JSON in a fence": f"bash\n\n```json\n{LS}\n```",
    "a name and other JSON": 'bash\n{"timeout": 5}',
    "JSON after functools": f"functools {OBJECT}",
    "a fence that text follows": '```tool_code\nbash(command="ls")\n```\nRun it.',
    "a fence of another language": '```python\nbash(command="ls")\n```',
    "a fence in a fence": '````\n```tool_code\nbash(command="ls")\n```\n````',
    "elements of another language": (
        f"<toolcall><bash>{LS} and</bash></toolcall>, `<toolcall><bash>{LS}</bash></toolcall>`\n"
        "<answer>It is <tool_calls>.</answer>\n<answer><tool_calls>none</tool_calls></answer>\n"
        f'<tool_call>{{"function=bash", "a": {LS}}}</tool_call>'
    ),
    "a transcript": (
        "[tool:bash] ls\n[tool:bash] {} was empty\nCalling tool: bash\n[Tool Use: bash]\n"
        'Calling tool: bash (it lists files)\nTool: bash\nInput: {"command": "ls"}'
    ),
    "a line that tells of a call": f"I ran this:\n[tool:bash] {LS}\nand it worked.",
    "JSON of other kinds": (
        'It has [{"bash": {"command": "ls"}}], {"tool": "bash", "args": {"command": "ls"}} and '
        '{"tool_name": "bash", "tool_input": {"command": "ls"}} in it.'
    ),
    "angles by their names": (
        "Write <<<TOOL_CALL>>> before it, and <<<END_TOOL_CALL>>> after it: "
        f"`<<<TOOL_CALL>>>{OBJECT}`. <eos>"
    ),
    "Python's tokens, and more than one reading": "\n".join(
        f"<tool_call>{{{call}}}</tool_call>"
        for call in (
            r'"name": "bash", "arguments": {"command": "type C:\code\new.txt",}',
            r"'name': 'bash', 'arguments': {'command': 'type C:\code\new.txt'}",
            r'"name": "bash", "arguments": {"command": "echo \'a\'",}',
            r"""'name': 'bash', 'arguments': {'command': 'echo \"a\"'}""",
            '"name": "bash", "arguments": {command: "ls", timeout: 5}',
            '"name": "bash", "arguments": {"command": "echo "a", "b": "c"",}',
            '"name": "bash", "arguments": {"command": "ls", "command": "rm",}',
            '"name": "bash", "arguments": {"command": "ls", "timeout": "x",}',
            '"name": "bash", "arguments": {"command": "ls", "shell": True}',
            '"name": "bash", "arguments": {"timeout": 5,}',
            '"name": "bash", "arguments": {"command": f"ls {path}"}',
            '"name": "bash", "arguments": {"command": "a" + "b"}',
            '"name": "bash", "arguments": {"command": "a", ...}',
            '"name": "rm", "arguments": {"path": "/",}',
        )
    ),
    "markup of another language": (
        '<function_call> <name>bash</name></function_call>\n<tool_call id="1">x</tool_call>\n'
        '<tool_call name="bash">text</tool_call>'
    ),
}

TEXTS |= {
    "tokens by their names": (
        f"PLaMo writes {PLAMO[0]} and {plamo('begin_tool_name')}, Solar <|tool_call:start|>NAME,\n"
        f"<|tool_arg:start|>KEY<|tool_arg:value|> and <|tool_call:end|>. In a fence:\n\n"
        f"```\n{SOLAR}\n{plamo_call('bash', LS).join(PLAMO)}\n```\nand `{SOLAR}`."
    ),
    "a prompt of Python": f">>> bash\n{LS}",
    "a prompt, and text": ">>>bash\nIt runs.",
    "a prompt, and more": f">>>bash\n{LS}\nIt runs.",
    "a type of JavaScript": "Array<function/bash> = [], x<function=bash,y",
}
GEMMA = {
    "gemma, no tokens": ('call:bash{command:<|"|>ls<|"|>}', BASH),
    "gemma, no tokens, quotation marks": ('call:bash{command: "ls", timeout: 5}', BOTH),
    "gemma, no tokens after text": ('I look.\ncall:bash{command:<|"|>ls<|"|>}', "I look.\n" + BASH),
    "gemma, no tokens, several": (
        'I look.\n\ncall:bash{command:<|"|>ls<|"|>}\ncall:finish{}<tool_call|>',
        "I look.\n\n" + BASH + "[finish {}]",
    ),
}
"""Of Gemma alone."""
OF_GEMMA = AUTO.looked_for("gemma-4-e4b")
GEMMA_TEXTS = [
    'call:bash{command:<|"|>ls<|"|>}\nlists files.',
    'call:rm{command:<|"|>ls<|"|>}',
    "call:bash{timeout:5}",
    "call:bash{command}",
    "call:bash{",
    'call:bash{command:<|"|>ls -la',
    'It writes\ncall:bash{command: "ls"}',
    'It is\ncall:bash{command:<|"|>ls<|"|>} there',
    '```\ncall:bash{command:<|"|>ls<|"|>}\n```',
    '> call:bash{command:<|"|>ls<|"|>}',
    '`call:bash{command:<|"|>ls<|"|>}`',
    "call: me\ncall:bash",
    "It is\ncall:bash{\n  return 1\n}",
]

AFTER_A_CALL = {
    "\nDone.": "\nDone.",
    "\n</tool_call>\n</tool_calls>\nDone.": "\nDone.",
    "</div> is no end of it": "</div> is no end of it",
    "<|end|>\nDone.": "\nDone.",
    "\nThe end is </tool_call>, then <｜end▁of▁sentence｜>.": "=",
    " < 5 and <b>so</b>": "=",
}


def meant(events: list[ScanEvent]) -> str:
    """The calls and the text, without the blanks of JSON."""
    return gist(events).replace('": ', '":').replace(', "', ',"').strip()


@pytest.mark.parametrize(("text", "wanted"), SHAPES.values(), ids=list(SHAPES))
def test_a_call_is_read_however_it_is_cut(text: str, wanted: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert meant(events_of(pieces, ACTIVE, REQUEST)) == wanted, pieces


@pytest.mark.parametrize(("text", "wanted"), GEMMA.values(), ids=list(GEMMA))
def test_a_call_of_gemma_without_its_tokens_is_read_of_gemma_alone(text: str, wanted: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert meant(events_of(pieces, OF_GEMMA, REQUEST)) == wanted, pieces
        assert gist(events_of(pieces, ACTIVE, REQUEST)) == text


def test_the_lines_of_a_long_answer_cost_nothing_of_what_reads_calls_of_gemma() -> None:
    text = "A line.\n" * 5_000
    events = events_of([text, GEMMA["gemma, no tokens"][0]], OF_GEMMA, REQUEST)
    assert meant(events) == text + BASH
    assert not [each for each in events if isinstance(each, LeftAsText)]


@pytest.mark.parametrize("text", GEMMA_TEXTS)
def test_what_is_nearly_a_call_of_gemma_is_text(text: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert gist(events_of(pieces, OF_GEMMA, REQUEST)) == text


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_a_text_about_a_format_is_a_text_to_the_character(text: str) -> None:
    for size in (len(text), 1, 2, 7):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert gist(events_of(pieces, ACTIVE, REQUEST)) == text


NOT_TO_THE_CHARACTER = ("=self", "_begin|>")
"""A thought becomes one, and of DeepSeek's tokens with ASCII bars some are strays of Kimi's."""


@pytest.mark.parametrize(
    "text",
    [text for text, _ in SHAPES.values() if not any(one in text for one in NOT_TO_THE_CHARACTER)],
)
def test_a_call_of_a_tool_that_nobody_declared_is_text_to_the_character(text: str) -> None:
    for tool in TOOLS:
        text = text.replace(tool, "rm")
    for size in (len(text), 1, 5):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert gist(events_of(pieces, ACTIVE, REQUEST)) == text


@pytest.mark.parametrize(("after", "wanted"), AFTER_A_CALL.items())
def test_what_is_left_of_the_markup_of_a_call_goes(after: str, wanted: str) -> None:
    text = f"<tool_call>{OBJECT}</tool_call>{after}"
    for pieces in ([text], *cuts_of(text)):
        events = gist(events_of(pieces, ACTIVE, REQUEST))
        assert events.partition("]")[2] == (after if wanted == "=" else wanted)


def test_the_end_of_an_element_around_a_call_is_text() -> None:
    text = f"So:\n<tools-called>\n<tool_call>{OBJECT}</tool_call>\n</tools-called>"
    for pieces in ([text], *cuts_of(text)):
        assert gist(events_of(pieces, ACTIVE, REQUEST)).endswith("]\n</tools-called>")


@pytest.mark.parametrize(
    "arguments",
    [
        """command='it's'""",
        """command='a 'b' c', other='x'""",
        """command='a 'b'', timeout='x'""",
        """command="echo "x", timeout=5\"""",
        """command='a 'b' c', command='d'""",
        """timeout='a 'b' c'""",
        """command='a 'b' c' + 'd'""",
        """command='a' + 'd'""",
        """command='a' 'd'""",
        """command='' + 'd'""",
        """command='a'+'d'""",
    ],
)
def test_marks_in_a_string_that_leave_more_than_one_reading_are_text(arguments: str) -> None:
    text = f"<|tool_call_start|>[bash({arguments})]"
    for pieces in ([text], *cuts_of(text)):
        assert gist(events_of(pieces, ACTIVE, REQUEST)) == text


@pytest.mark.parametrize(
    "text",
    [
        "<function=bash>\n<parameter=timeout>\n5",
        "<function=bash>\n<parameter=command> ls\n<parameter=timeout> soon",
        "<function=bash>\n<parameter=command>\necho <parameter=x> >> a",
    ],
)
def test_a_last_value_without_an_end_is_text_unless_it_is_certain(text: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert gist(events_of(pieces, ACTIVE, REQUEST)) == text


def test_at_a_limit_a_last_value_without_an_end_is_text() -> None:
    for text, _ in (SHAPES["no end"], SHAPES["no end, one"]):
        for pieces in ([text], *cuts_of(text)):
            assert gist(events_of(pieces, ACTIVE, REQUEST, whole=False)) == text
