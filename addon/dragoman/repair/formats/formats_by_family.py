"""All leak formats with the families of models that write them, and which are looked for.

A new one is a file here that keeps the promises of `protocol`, and a row below.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..model_family import VENDORS, families_of
from . import bracketed, enclosed_json
from .bracketed import GEMMA, LFM2, MINIMAX_ARROWS
from .deepseek import DEEPSEEK
from .glm import GLM, GLM_4, HUNYUAN, HUNYUAN_OPEN, IQUEST, IQUEST_CODER
from .harmony import HARMONY, HARMONY_ROLE, HARMONY_STRIPPED
from .invoke import ATEM, CLAUDE, DSML, FUNCTION, GIGACHAT_TAGS, MINIMAX_M2, STEP, XAI
from .json_alone import JSON_ALONE
from .kimi_k2 import KIMI_K2
from .kimi_k3 import KIMI_K3
from .marker_search import MarkerSearch, search_for
from .marker_set import compile_all
from .minimax_m3 import MINIMAX_M3
from .mistral import MISTRAL
from .protocol import LeakFormat, MarkerMatch
from .qwen import QWEN
from .token_tags import PLAMO, SOLAR
from .unknown_shape import UNKNOWN_SHAPE

_UNKNOWN = frozenset({"a model of no known family"})
"""Most often it runs on somebody's own computer."""
REGISTRY: dict[LeakFormat, frozenset[str]] = {
    KIMI_K2: frozenset({"kimi"}),
    KIMI_K3: frozenset({"kimi"}),
    DSML: frozenset({"deepseek"}),
    DEEPSEEK: frozenset({"deepseek"}),
    enclosed_json.HERMES: frozenset({"hermes", "qwen"}),
    QWEN: frozenset({"qwen", "seed"}),
    bracketed.PYTHON: frozenset({"glm"}),
    bracketed.PYTHON_ALONE: _UNKNOWN | {"llama", "gemma", "lfm", "open"},
    bracketed.PRINTED_CODE: frozenset({"gemma"}),
    bracketed.TOOL_CODE: frozenset({"gemma"}),
    bracketed.PYTHON_CALLS: frozenset({"open"}),
    GLM: frozenset({"glm"}),
    GLM_4: _UNKNOWN | {"glm"},
    HUNYUAN: frozenset({"open"}),
    HUNYUAN_OPEN: frozenset({"open"}),
    IQUEST: frozenset({"open"}),
    IQUEST_CODER: frozenset({"open"}),
    CLAUDE: frozenset({"anthropic"}),
    MINIMAX_M2: frozenset({"minimax", "deepseek"}),
    MINIMAX_M3: frozenset({"minimax"}),
    FUNCTION: frozenset({"open", "seed"}),
    ATEM: frozenset({"muse"}),
    STEP: frozenset({"open"}),
    XAI: frozenset({"xai"}),
    GIGACHAT_TAGS: frozenset({"open"}),
    SOLAR: frozenset({"open"}),
    PLAMO: frozenset({"open"}),
    HARMONY: frozenset({"gpt-oss"}),
    HARMONY_STRIPPED: frozenset({"gpt-oss"}),
    HARMONY_ROLE: frozenset({"gpt-oss"}),
    MISTRAL: frozenset({"mistral"}),
    enclosed_json.NEMOTRON: frozenset({"nemotron"}),
    enclosed_json.LLAMA: frozenset({"llama"}),
    enclosed_json.GRANITE: frozenset({"granite"}),
    enclosed_json.DOUBAO: frozenset({"seed"}),
    enclosed_json.SEED: frozenset({"seed"}),
    enclosed_json.TOOLS: frozenset({"qwen"}),
    enclosed_json.MINIMAX_TEXT: frozenset({"minimax"}),
    MINIMAX_ARROWS: frozenset({"minimax"}),
    GEMMA: frozenset({"gemma"}),
    enclosed_json.GEMMA_JSON: frozenset({"gemma"}),
    bracketed.FUNCTION_GEMMA: frozenset({"gemma"}),
    bracketed.GEMMA_ALONE: frozenset({"gemma"}),
    LFM2: frozenset({"lfm"}),
    bracketed.LLAMA_4: frozenset({"llama"}),
    enclosed_json.LFM2_JSON: frozenset({"lfm"}),
    enclosed_json.LONGCAT: frozenset({"open"}),
    enclosed_json.GIGACHAT: frozenset({"open"}),
    enclosed_json.COHERE: frozenset({"open"}),
    enclosed_json.INTERNLM: frozenset({"open"}),
    enclosed_json.APERTUS: frozenset({"open"}),
    enclosed_json.IQUEST: frozenset({"open"}),
    enclosed_json.HORIZON: frozenset({"open"}),
    enclosed_json.INVOKED: frozenset({"open"}),
    enclosed_json.FUNCTION_CALL: frozenset({"granite"}),
    enclosed_json.TOOL_CALLS: frozenset({"minimax"}),
    enclosed_json.ANSWER: frozenset({"open"}),
    enclosed_json.TOOLCALL: frozenset({"hermes"}),
    enclosed_json.TOOLCALL_NAMED: frozenset({"hermes"}),
    enclosed_json.TOOL_DASH_CALL: frozenset({"hermes"}),
    enclosed_json.TOOL_REQUEST: frozenset(),
    enclosed_json.TOOL_CALL_ANGLES: frozenset(),
    enclosed_json.FUNCTIONCALL: frozenset({"hermes"}),
    enclosed_json.ATTRIBUTES: frozenset({"deepseek"}),
    enclosed_json.CALLING_TOOL: frozenset(),
    enclosed_json.TOOL_USE: frozenset(),
    enclosed_json.CALLING: frozenset(),
    enclosed_json.TOOL_LABEL: frozenset(),
    JSON_ALONE: _UNKNOWN | {"qwen", "hermes", "mistral", "llama", "gemma", "granite"},
    UNKNOWN_SHAPE: frozenset(),
}
"""Each format with the model families that write it (`model_family`)."""
_LONE = {
    leak_format: re.compile(rf"(?:{tag})\s*\Z")
    for leak_format, tag in {
        enclosed_json.HERMES: "</?tool_call>",
        GLM: "</?tool_call>",
        enclosed_json.SEED: "</?seed:tool_call>",
        DSML: r"</? ?[｜|‖ ]{1,5}DSML[｜|‖ ]{1,5}(?:tool_?calls?|function_calls|tool_use|calls)",
        MINIMAX_M2: "</?minimax:tool_call|<(?:function_calls|tool_calls|calls)>?",
    }.items()
}
"""What is no marker, as nothing follows it, but a stray where a text ends with it."""
FORMATS: tuple[LeakFormat, ...] = tuple(REGISTRY)
NAMES = tuple(dict.fromkeys(each.name for each in FORMATS))
_ALWAYS = frozenset({"kimi"})
"""Families whose formats are looked for even with a vendor's own model: routers rename it."""
_BY_FAMILY = (
    HARMONY_STRIPPED,
    HARMONY_ROLE,
    JSON_ALONE,
    bracketed.PYTHON_ALONE,
    bracketed.GEMMA_ALONE,
    GLM_4,
    CLAUDE,
)
"""Formats that are looked for with the models of their families alone."""
_FAMILIES = frozenset().union(*REGISTRY.values())


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """Which formats the user wants to be looked for."""

    formats: tuple[LeakFormat, ...] | None = None
    """None: those of the model."""

    @classmethod
    def of(cls, words: str) -> FormatChoice | None:
        """From ``auto``, ``all``, or names joined by commas; None for anything else."""
        names = [name.strip().lower() for name in words.split(",")]
        if names == ["auto"]:
            return cls()
        if names == ["all"]:
            return cls(FORMATS)
        if not set(names) <= set(NAMES):
            return None
        return cls(tuple(each for each in FORMATS if each.name in names))

    def looked_for(
        self, requested: str, replied: str = "", *, claude: bool = False
    ) -> MarkerSearch:
        """The formats that are looked for if the request and the reply name these models: models
        write each other's, so nearly all; but of one that is a vendor's own only those of the
        families of either name.  `claude`: whether Claude's is one of them, whatever the names."""
        if self.formats is not None:
            return search_for(self.formats)
        families = families_of(requested, replied)
        of_vendor = bool(families & VENDORS)
        written = families | _ALWAYS if of_vendor else families or _UNKNOWN
        written |= {"anthropic"} if claude else set()
        by_family = FORMATS if of_vendor else _BY_FAMILY
        own = (each for each in FORMATS if each not in by_family or REGISTRY[each] & written)
        return search_for(tuple(own))

    def compile(self) -> None:
        """Compile what replies need, whatever the model: most of a second, which no reply has to
        wait."""
        compile_all()
        for choice in (self, AUTO):
            search_for(FORMATS if choice.formats is None else choice.formats).compile()
        for family in ("", "claude", *_FAMILIES):
            for requested in (family, "gpt-5"):
                self.looked_for(requested, family).compile()


AUTO = FormatChoice()
ALL = AUTO.looked_for("")
"""The formats that are looked for if the model is not known."""


def lone_at_end(text: str, before: str, formats: Collection[LeakFormat]) -> MarkerMatch | None:
    """The tag of one of these formats with which a text ends, if nothing but a call was meant by
    it, and it is alone: a closing tag after a tag or JSON, perhaps at the end of the text `before`
    this, is the end of a damaged call."""
    for leak_format, tag in _LONE.items():
        if leak_format in formats and (found := tag.search(text)) is not None:
            name = found[0].strip()
            last = (before + text[: found.start()]).rstrip()[-1:]
            if name.startswith("</") and last in (">", "}"):
                return None
            return MarkerMatch(leak_format, name, found.start(), found.end(), is_opener=False)
    return None
