"""Who may call tools in Kimi's format: what a request and the model's name say of it.

Repair sees text.  A special token and the same characters, written by a model that
explains them, look alike; so whether a marker can be real is decided by what the request
allows and by who answers it:

| the request            | the model                                  | a marker begins           |
|------------------------|--------------------------------------------|---------------------------|
| ``tool_choice`` "none" | any                                        | nothing: it is text       |
| any                    | a vendor's own, which has no such tokens   | nothing                   |
| declares tools         | Kimi's                                     | a call                    |
| declares tools         | another, or of an unknown name             | a call of a declared tool |
| declares none          | Kimi's, or of an unknown name              | a call                    |
| declares none          | of another known family                    | nothing                   |

The name is the request's or the reply's: a router answers with the name of the model that
it chose.  If either is Kimi's, the model is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .declared_tools import DeclaredTools

_KIMI = re.compile(r"kimi|moonshot|(?:^|[/:])k[23](?![0-9a-z])")
_VENDOR = re.compile(
    r"(?<![a-z])(?:chat)?gpt-?(?!oss|-oss)|(?:^|[/:.@])o[1-9](?![0-9a-z])"
    r"|claude|gemini|(?<![a-z])grok|(?:^|[/:.@])codex-"
)
"""Models that run only at their vendor's, with tokens of their own."""
_OTHER = re.compile(
    r"deepseek|qwen|qwq|qvq|glm|minimax|abab|mi[sx]tral|magistral|devstral|codestral|ministral"
    r"|pixtral|llama|gemma|gpt-?oss|(?:^|[/:])phi-?[0-9]|nemotron|command-|granite|(?:^|[/:])step-"
    r"|ernie|doubao|seed-|longcat|hunyuan|mimo-|internlm|intern-s|(?:^|[/:])yi-|falcon|olmo|jamba"
    r"|(?:^|[/:.])nova-|exaone|(?:^|[/:])solar|(?:^|[/:])ling-|(?:^|[/:])ring-|(?:^|[/:])lfm"
)
"""Families that run on open hosts."""

Family = Literal["kimi", "vendor", "other", "unknown"]
_FAMILIES: tuple[tuple[Family, re.Pattern[str]], ...] = (
    ("kimi", _KIMI),
    ("vendor", _VENDOR),
    ("other", _OTHER),
)


def family_of(*names: str) -> Family:
    """The family of a model that goes by all of these names, empty ones apart."""
    spelled = [name.lower() for name in names]
    for family, pattern in _FAMILIES:
        if any(pattern.search(name) for name in spelled):
            return family
    return "unknown"


@dataclass(frozen=True, slots=True)
class CallRule:
    """What a marker outside quoted code begins."""

    calls: Literal["any", "declared", "none"]
    """`any`: a call, whatever it names; `declared`: a call if it is one of a declared tool."""
    kimi: bool
    """Whether the model is Kimi's: it leaves fences open, and means what it writes there
    last (see `Scanner`)."""


ANY = CallRule("any", kimi=True)


def rule_for(tools: DeclaredTools, reply_model: str) -> CallRule:
    """The rule for a reply that names its model so, to the request that `tools` is of."""
    family = family_of(tools.model, reply_model)
    kimi = family == "kimi"
    if tools.forbidden or family == "vendor":
        return CallRule("none", kimi)
    if not tools:
        return CallRule("none" if family == "other" else "any", kimi)
    return CallRule("any" if kimi else "declared", kimi)
