"""Who may call tools in a format: what a request and the model's name say of it.

Repair sees text.  A special token and the same characters, written by a model that
explains them, look alike; so whether a marker can be real is decided by what the request
allows and by who answers it.  ``tool_choice`` "none": nothing is a call, it is text.  Else the
first row that applies counts:

| the request    | the model                        | a marker of Kimi's begins | another begins |
|----------------|----------------------------------|---------------------------|----------------|
| any            | a vendor's own, not the format's | nothing                   | nothing        |
| declares tools | the format's own                 | a call                    | a declared one |
| declares tools | another, or of an unknown name   | a declared one            | a declared one |
| declares none  | the format's own, or unknown     | a call                    | nothing        |
| declares none  | of another known family          | nothing                   | nothing        |

The name is the request's or the reply's: a router answers with the name of the model that
it chose.  If either is of the format's own family, the model is.

A marker without a call around it is taken out where it is of the model's own format, and after a
call of its format; elsewhere it is text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from .declared_tools import DeclaredTools
from .formats.formats_by_family import REGISTRY
from .formats.protocol import LeakFormat
from .model_family import VENDORS, families_of

Calls = Literal["any", "declared", "none"]


@dataclass(frozen=True, slots=True)
class CallRule:
    """What a marker of a format begins."""

    calls: Calls
    """`any`: a call, whatever it names; `declared`: a call if it is one of a declared tool."""
    quoted_last: bool = False
    """Whether what is in quoted code is a call after all if its text ends with it."""
    strays: bool = True
    """Whether a marker without a call is taken out where nothing of its format was before."""


Rules = Callable[[LeakFormat], CallRule]
"""The rules of one reply, by format."""

_KIMI = frozenset({"kimi_k2", "kimi_k3"})
"""Formats whose markers are special tokens, which nobody writes by chance: a client without tools
gets the calls as well."""


def rules_for(tools: DeclaredTools, reply_model: str) -> Rules:
    """The rules for a reply by this model to the request that declares these tools."""
    if tools.forbidden:
        return lambda _: CallRule("none")
    return partial(_rule, families_of(tools.model, reply_model), bool(tools))


@cache
def _rule(families: frozenset[str], tools: bool, leak_format: LeakFormat) -> CallRule:
    kimi = leak_format.name in _KIMI
    own = bool(families & REGISTRY.get(leak_format, frozenset()))
    calls: Calls = "declared" if tools and (own or not families & VENDORS) else "none"
    if kimi and (own or not (families or tools)):
        calls = "any"
    return CallRule(calls, quoted_last=kimi and own, strays=own)
