"""Leaks as the models of many families write them, by the names that their hosts give them; and
documentation of their formats, which stays text.  Which formats are looked for is that of the name.
"""

from __future__ import annotations

import pytest

from dragoman.repair.call_rule import rules_for
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.formats_by_family import AUTO
from dragoman.repair.scanner import Scanner
from tests.repair.formats.turns import gist

TOOLS = {
    "run": {"script": "string", "seconds": "integer"},
    "look_up": {"city": "string", "days": "integer"},
    "save": {"file": "string", "text": "string"},
    "clock": {},
}
REQUIRED = {"run": ["script"], "look_up": ["city"], "save": ["file", "text"]}
REQUEST = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": kind} for key, kind in properties.items()},
                    "required": REQUIRED.get(name, []),
                },
            },
        }
        for name, properties in TOOLS.items()
    ]
}
LIMA = '[look_up {"city":"Lima"}]'
TWO = LIMA + "[clock {}]"
RUN = '[run {"script":"make"}]'
SAVED = '[save {"file":"a.py","text":"    x = 1"}]'
OBJECT = '{"name": "look_up", "arguments": {"city": "Lima"}}'
CLOCK = '{"name": "clock", "arguments": {}}'
D, G = "｜DSML｜", "｜GCML｜"
LEAKS: list[tuple[str, str, str]] = [
    # JSON
    ("baidu/ERNIE-4.5-21B", f"<tool_call>\n{OBJECT}\n</tool_call>\n", LIMA),
    (
        "openPangu-R-72B",
        f"I see.<|tool_call_start|>[{OBJECT}, {CLOCK}]<|tool_call_end|>",
        f"I see.{TWO}",
    ),
    ("pangu", f"So\n<|tool_call_start|>\n[{CLOCK}]\n<|tool_call_end|>", "So\n[clock {}]"),
    ("Salesforce/xLAM-2-3b-fc-r", f"[{OBJECT}, {CLOCK}]", TWO),
    ("xLAM-2-32b-fc-r", f"<think>Hm.</think>[{OBJECT}]", f"<think>Hm.</think>{LIMA}"),
    ("Salesforce/xLAM-2-3b-fc-r", f"So:\n```json\n[{OBJECT}]\n```", f"So:\n{LIMA}"),
    ("Salesforce/Llama-xLAM-2-8b", f"So.[TOOL_CALLS][{OBJECT}]", f"So.{LIMA}"),
    ("Salesforce/Llama-xLAM-2-8b", f"So.<tool_call>[{OBJECT}]</tool_call>", f"So.{LIMA}"),
    ("rwkv7-g1", f'```json\n{OBJECT[:-1]}, "id": "call_1"}}\n```', LIMA),
    ("qwen2.5-coder:14b", OBJECT.replace(": ", ":\n  "), LIMA),
    (
        "llama3.1:8b",
        OBJECT.replace("{", '{"type": "function", ', 1).replace("arguments", "parameters"),
        LIMA,
    ),
    ("mistral-nemo", f'[{{"type": "function", "function": {OBJECT}}}]', LIMA),
    ("hermes-4-405b", f"</think>{OBJECT}</tool_call>", f"</think>{LIMA}"),
    ("qwen3-8b", f"{OBJECT}\n{CLOCK}\n</tool_call>", TWO),
    ("ai21/jamba-1.5-mini", f"<tool_calls>[\n  {OBJECT}\n]</tool_calls>", LIMA),
    ("ServiceNow-AI/Apriel-1.5", f'<tool_calls>[{OBJECT[:-1]}, "id": "c1"}}]</tool_calls>', LIMA),
    ("ibm-granite/granite-3.1-8b", f"<tool_call>[{OBJECT}]", LIMA),
    ("phi-4-mini-instruct", f"<|tool_call|>[{OBJECT}]<|/tool_call|>", LIMA),
    ("mistralai/Ministral-8B", f"[TOOL_CALLS] [{OBJECT}]</s>", LIMA),
    ("devstral-small-2", '[TOOL_CALLS]look_up[ARGS]{"city": "Lima"}[TOOL_CALLS]clock[ARGS]{}', TWO),
    (
        "mistralai/Devstral-Small-2505",
        '[TOOL_CALLS]look_up[CALL_ID]a1b2[ARGS]{"city": "Lima"}',
        LIMA,
    ),
    ("lmstudio-community/gemma-3-12b", f"[TOOL_REQUEST]{OBJECT}[END_TOOL_REQUEST]", LIMA),
    ("glm-4.7", f"<tool-call>\n{OBJECT}\n</tool-call>", LIMA),
    ("qwen3-8b", f"<tool_call>\n{OBJECT}\n</invoke>", LIMA),
    ("Qwen3-8B", f"<tool_call>\n{OBJECT}}}\n</tool_call>", LIMA),
    ("Qwen2.5-7B-Instruct", f"<tool_call>\n{OBJECT[:-1]}\n</tool_call>", LIMA),
    (
        "command-a-03-2025",
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "look_up", "parameters": '
        '{"city": "Lima"}}]<|END_ACTION|>',
        LIMA,
    ),
    (
        "thinkingmachines/Inkling",
        '<|content_invoke_tool_json|>{"name":"look_up","args":{"city":"Lima"}}<|end_message|>',
        LIMA,
    ),
    # Names, then JSON
    ("zai-org/GLM-5.3-Flash", '<tool_call>look_up>{"city": "Lima"}', LIMA),
    ("glm-4.7-flash", '<tool_call>look_up {"city": "Lima"}</tool_call>', LIMA),
    ("llama-3.3-70b-versatile", '<function=look_up>{"city": "Lima"}</function>', LIMA),
    ("llama-3.1-8b-instant", '<function=look_up{"city": "Lima"}</function>', LIMA),
    ("qwen3.5:35b", "<function=run\n<parameter=script>make</parameter>\n</function>", RUN),
    ("LiquidAI/LFM2.5-8B-A1B", '[Calling tool: look_up({"city": "Lima"})]', LIMA),
    (
        "kimi-k2p6-turbo",
        'look_up:0<|tool_call_argument_begin|>{"city": "Lima"}<|tool_calls_section_end|>',
        LIMA,
    ),
    (
        "deepseek-v4-flash",
        f'See.\n\n<{D}toolcall>look_up\n\n```json\n{{"city": "Lima"}}\n```',
        f"See.\n\n{LIMA}",
    ),
    (
        "deepseek-v3.1",
        '<|tool_calls_begin|><|tool_call_begin|>look_up<|tool_sep|>{"city": "Lima"}<|tool'
        "_call_end|><|tool_calls_end|>",
        LIMA,
    ),
    (
        "openai/gpt-oss-20b",
        '<|start|>assistant to=functions.look_up<|channel|>commentary json<|message|>{"ci'
        'ty": "Lima"}<|call|>',
        LIMA,
    ),
    (
        "gpt-oss-20b",
        '<|channel|>analysis to=functions.look_up code<|message|>{"city": "Lima"}<|call|>',
        LIMA,
    ),
    # Tags
    (
        "ai-sage/GigaChat3.5-10B",
        f'<{G}tool_calls><{G}invoke name="look_up"><{G}parameter name="city" string="true"'
        f">Lima</{G}parameter></{G}invoke></{G}tool_calls>",
        LIMA,
    ),
    (
        "tencent/Hunyuan-4",
        "<tool_calls:opensource><tool_call:opensource>look_up<arg_key:opensource>city</ar"
        "g_key:opensource><arg_value:opensource>Lima</arg_value:opensource></tool_call:op"
        "ensource></tool_calls:opensource>",
        LIMA,
    ),
    (
        "IQuestLab/IQuest-Coder-V2",
        "<iquestcoder_tool_call>look_up\n<arg_key>city</arg_key>\n<arg_value>Lima</arg_va"
        "lue></iquestcoder_tool_call>",
        LIMA,
    ),
    (
        "poolside/laguna-xs",
        "<tool_call>save\n<arg_key>file</arg_key>\n<arg_value>a.py</arg_value>\n<arg_key>"
        "text</arg_key>\n<arg_value>    x = 1</arg_value>\n</tool_call>",
        SAVED,
    ),
    ("inclusionAI/Ling-3-flash", "<tool_call>clock</tool_call>", "[clock {}]"),
    (
        "xinfer/GLM-5.2-fp8",
        "<tool_call>look_up<arg_key>city</arg_key><arg_value>Lima</arg_value></tool_call>"
        "</tool_call>",
        LIMA,
    ),
    (
        "deepseek-v3.2",
        '<function_calls>\n<invoke name="look_up">\n<parameter name="city" string="true">'
        "Lima</parameter>\n</invoke>\n</function_calls>",
        LIMA,
    ),
    (
        "kimi-k3-high",
        '<|open|>toolscall tool="run" index="1"<|sep|><|open|>argument key="script" type='
        '"string"<|sep|>make<|close|>argument<|sep|><|close|>call<|sep|><|close|>toolsmes'
        "sage<|sep|>",
        RUN,
    ),
    (
        "minimax/minimax-m2.5",
        '<minimax:tool_call>\n<invoke tool="run">\n<parameter name="script">make</paramet'
        "er>\n</invoke>\n</minimax:tool_call>",
        RUN,
    ),
    (
        "claude-sonnet-4-6",
        '<invoke name="save">\n<parameter name="text">    x = 1</text>\n<parameter name="'
        'file">a.py</parameter>\n</invoke>',
        '[save {"text":"    x = 1","file":"a.py"}]',
    ),
    (
        "qwen3.6:27b",
        "<tool_call>\n<function=save>\n<parameter=file>\na.py\n</parameter>\n<parameter=t"
        "ext>\n    x = 1\n</function>\n</tool_call>",
        SAVED,
    ),
    ("qwen3-coder:30b-a3b-q4_K_M", "<function=run>\n<parameter=script>make</parameter>", RUN),
    (
        "xiaomi/mimo-v2-flash",
        "<tool_call>\n<function=run>\n<parameter=script>make</parameter>\n</function>\n</"
        "tool_call>",
        RUN,
    ),
    (
        "x-ai/grok-code-fast-1",
        '<xai:function_call name="run">\n<parameter name="script">make</parameter>\n</xai'
        ":function_call>",
        RUN,
    ),
    # Brackets
    ("google/gemma-4-31b-it", '<|tool_call>call:run{script:<|"|>make<|"|>}<turn|>', RUN),
    ("gemma-4-26b-a4b", '<|tool_call>:call:run{script:<|"|>make<|"|>}', RUN),
    ("gemma-3-27b-it", '```tool_code\nprint(default_api.look_up(city="Lima"))\n```', LIMA),
    ("Team-ACE/ToolACE-2-8B", '[look_up(city="Lima"), clock()]', TWO),
    ("lfm2.5-8b-a1b", "<|tool_call_start|>[look_up(city='Lima')]<|tool_call_end|>", LIMA),
]
TEXTS: list[tuple[str, str]] = [
    ("react-agent", 'Thought: I look.\nAction: look_up\nAction Input: {"city": "Lima"}'),
    ("qwen2.5-coder:7b", f"I will look it up.\n\n{OBJECT}"),
    (
        "qwen3-coder",
        "```xml\n<function=run>\n<parameter=script>\nmake\n</parameter>\n</function>\n```",
    ),
    ("qwen3-8b", f"tool_calls: [{OBJECT}]"),
    ("qwen3-8b", f"{OBJECT}</tool_call> is one."),
    ("qwen3-8b", f"{OBJECT} ends with </tool_call>."),
    ("qwen3-8b", f"```json\n{OBJECT}\n</tool_call>"),
    ("glm-5", "<tool_call>run>make</tool_call>"),
    ("glm-5", "run/script>make"),
    (
        "llama-3.1-8b",
        "A head is <function=look_up, then {city}, or <function=clock and </function>.",
    ),
    ("glm-5.1", "<arg_key>city</arg_key><arg_value>Lima</arg_value>"),
    ("kimi-k2.6", 'functions.look_up:0 {"city": "Lima"}'),
    ("gpt-5.2", f"<tool_call>{OBJECT}</tool_call>"),
    ("x-ai/grok-4", '<invoke name="run"><parameter name="script">make</parameter></invoke>'),
    (
        "deepseek-v4",
        'Long: ``<｜DSML｜invoke name="clock">…``, and ``short, `<｜DSML｜invoke name="clo'
        'ck"/>` in V4``.',
    ),
    (
        "laguna",
        "Parser\n\n    It has <tool_call>look_up<arg_key>city</arg_key><arg_value>Lima</a"
        "rg_value>\n    as GLM has, so (1) it is one.\n\nEnd.",
    ),
    (
        "step-3.5",
        "It writes:\n\n    <tool_call>\n    <function=run>\n    <parameter=script>make</p"
        "arameter>\n    </function>\n    </tool_call>\n\nLike Qwen.",
    ),
    (
        "vllm",
        '- Format: `[TOOL_CALLS] [{"name": "clock", "arguments": {}}]`\n- Or: `[TOO'
        "L_CALLS]clock{}` (new)",
    ),
    (
        "gemma-4",
        "1. Gemma: <|tool_call>call:name{...}<tool_call|>\n2. Mistral: [TOOL_CALLS] ...\n"
        '3. Qwen: <tool_call>{"name": "...", "arguments": {...}}</tool_call>',
    ),
]


def read_by(model: str, text: str, size: int) -> str:
    """What comes of a text of this model in pieces of this size."""
    tools = DeclaredTools.of_request(REQUEST | {"model": model})
    claude = model.startswith("claude")
    scanner = Scanner(tools, rules_for(tools, ""), AUTO.looked_for(model, claude=claude))
    events = [
        event for at in range(0, len(text), size) for event in scanner.feed(text[at : at + size])
    ]
    return gist(events + scanner.close())


@pytest.mark.parametrize(("model", "text", "wanted"), LEAKS)
def test_a_leak_is_the_call_that_was_meant(model: str, text: str, wanted: str) -> None:
    for size in (len(text), 1, 2, 7):
        said = read_by(model, text, size).replace('": ', '":').replace('":\n  ', '":')
        assert said.strip() == wanted, size


@pytest.mark.parametrize(("model", "text"), TEXTS)
def test_what_is_no_call_is_text_to_the_character(model: str, text: str) -> None:
    for size in (len(text), 1, 2, 7):
        assert read_by(model, text, size) == text
