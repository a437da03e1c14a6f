"""Literals as Python and others write them, for which this gives JSON's tokens::

    {'name': 'bash', 'arguments': {'command': 'ls', 'background': True,}}

Nothing is evaluated: a JSON parser decides whether the result is a value.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ...wire.json_codec import MAX_NESTING, Json
from .value_types import PYTHON, json_string

MAX_TOKENS = 32 * 1024
"""Brackets and strings of one call, or its values and what is between them."""
_TOKEN = re.compile(
    r"""<\|"\|>(?P<raw>(?:[^<]++|<(?!\|"\|>))*+)<\|"\|>"""
    r"""|<escape>(?P<escaped>(?:[^<]++|<(?!escape>))*+)<escape>"""
    r"""|(?P<quote>"{3}|'{3}|["'])(?P<string>(?:[^"'\\]++|\\.|(?!(?P=quote)).)*+)"""
    r"""(?:(?P=quote)|(?P<open>))"""
    r"""|(?P<bracket>[(){}\[\]])|--(?P<flag>\w[\w-]*+)|(?P<key>[\w.+-]++)\s*+(?:=>|[:=])"""
    r"""|(?P<word>[\w.+-]++)|(?P<sign>=>|[:=])|(?P<comma>,)|(?P<blanks>\s++)|(?P<other>.)""",
    re.DOTALL,
)
_BRACKETS = {"(": "{", ")": "}"}
_CLOSES = {"(": ")", "{": "}", "[": "]"}
_ESCAPE = re.compile(
    r"""(?P<same>(?:[^"\\]++|\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))++)"""
    r"""|"|\\(?:x(?P<code>[0-9a-fA-F]{2})|.)""",
    re.DOTALL,
)
_ESCAPED = {"\\'": "'", "\\\n": ""}
_ALIKE = frozenset({"word", "bracket", "sign", "comma", "blanks"})
_UNLIKE = frozenset({"(", ")", "=", "=>"})
"""Of these kinds JSON has all tokens but these."""
_ESCAPES = {
    '"': re.compile(r'(?:[^\\]++|\\["\\/bfnrtu])*+'),
    "'": re.compile(r"(?:[^\\]++|\\['\\bfnrtu])*+"),
}
"""Strings in which each escape is certain: in a path of Windows some might be none."""


def mended(text: str, marks: str = "\"'") -> str:
    """The JSON text of an object that differs from JSON's in words such as ``True``, in commas
    before a closing bracket, or in its quotation marks, which are one of these; empty if it may be
    read in another way."""
    tokens = as_json(text)[0]
    certain = tokens and all(_is_certain(each, marks) for each in _TOKEN.finditer(text))
    return tokens if certain else ""


def _is_certain(token: re.Match[str], marks: str) -> bool:
    if token.lastgroup == "string":
        escapes = _ESCAPES.get(token["quote"])
        return (
            token["quote"] in marks
            and escapes is not None
            and escapes.fullmatch(token["string"]) is not None
        )
    return token.lastgroup in _ALIKE and token[0] not in _UNLIKE


def as_json(text: str) -> tuple[str, int]:
    """The text with JSON's tokens, empty if it has others or is too deep, and how many members its
    object has."""
    tokens: list[str] = []
    opened: list[str] = []
    members = 0
    for found in _TOKEN.finditer(text):
        kind, token = found.lastgroup, found[0]
        if kind in ("open", "other") or len(opened) > MAX_NESTING or len(tokens) > MAX_TOKENS:
            return "", 0
        if kind in ("raw", "escaped"):
            tokens.append(json_string(found[kind]))
        elif kind == "string":
            tokens.append(f'"{_ESCAPE.sub(_escape, found["string"])}"')
        elif kind == "word":
            tokens.append(PYTHON.get(token, token))
        elif kind == "bracket":
            if token in _CLOSES:
                opened.append(_CLOSES[token])
            elif not opened or opened.pop() != token:
                return "", 0
            elif tokens[-1] == ",":
                tokens.pop()
            tokens.append(_BRACKETS.get(token, token))
        elif kind in ("key", "flag"):
            comma = kind == "flag" and tokens[-1] not in "{,"
            tokens += [","] * comma + [json_string(found[kind]), ":"]
        elif kind != "blanks":
            tokens.append("," if kind == "comma" else ":")
        members += len(opened) == 1 and kind in ("key", "flag", "sign")
    return "".join(tokens), members


def _escape(found: re.Match[str]) -> str:
    """What JSON writes for an escape of Python's, or for a quotation mark."""
    if found["same"]:
        return found[0]
    return rf"\u00{found['code']}" if found["code"] else _ESCAPED.get(found[0], "\\" + found[0])


def _once(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _constant(word: str) -> None:
    raise ValueError(word)


decode_once = json.JSONDecoder(
    strict=False, object_pairs_hook=_once, parse_constant=_constant
).decode
"""Reads a JSON text in which no member comes twice."""
