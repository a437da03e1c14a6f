"""What requests of Anthropic's Messages API hold for Anthropic alone, as any other model reads it:
as texts and images.

| what stands in the request                       | what is made of it                           |
|--------------------------------------------------|----------------------------------------------|
| ``x-anthropic-billing-header: …`` of `system`    | nothing: it differs in every request         |
| a message of role `system`                       | a ``<system-reminder>`` of the user's        |
| a tool that such a message adds, or takes away   | a line that says so                          |
| a document with a text, results of a search …    | their titles, addresses and texts            |
| a PDF, a file that Anthropic keeps               | a line: it is left out, and what to do       |
| ``tool_reference``                               | ``Loaded: NAME``                             |
| ``server_tool_use``, a kind that nobody knows    | a line with what names it                    |

Each depends on itself alone, and a string gives the same bytes as the same text in a block, so the
messages of one turn begin with those of the turn before.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from itertools import groupby
from typing import Any, TypeAlias
from xml.sax.saxutils import quoteattr

from ..messages.names import blocks_of, text_of
from ..messages.tools import change_line
from ..notes import Evidence
from ..wire.json_codec import Json, array, string
from ..wire.request_bounds import MAX_INNER

Part: TypeAlias = str | Json
"""Some text, or the block of an image."""

# Instructions

_BILLING = re.compile(r"\Ax-anthropic-billing-header:[^\n]*+\n*+")
"""Claude Code's, of one line; at its beginning alone is it no text of somebody's."""


def system_text(content: object, tools: Container[str] | None = None) -> str:
    """What `system`, or a message of that role, says; blocks are apart by a blank line.  `tools`:
    see `change_line`."""
    blocks = blocks_of({"content": content})
    texts = (_BILLING.sub("", text_of(block)) or change_line(block, tools) for block in blocks)
    return "\n\n".join(filter(None, texts))


def reminder(text: str) -> str:
    """A text of role `system` as the user's."""
    return f"<system-reminder>\n{text}\n</system-reminder>"


def without_billing(system: Any) -> Any:
    """The field `system` without the billing header; the very object if it has none, and None if
    nothing else is in it."""
    if isinstance(system, str):
        return _BILLING.sub("", system) or None if _BILLING.match(system) else system
    if not any(_is_billed(block) for block in array(system)):
        return system
    stripped = [_stripped(block) if _is_billed(block) else block for block in system]
    return [block for block in stripped if block is not None] or None


def _is_billed(block: object) -> bool:
    return isinstance(block, dict) and _BILLING.match(string(block.get("text"))) is not None


def _stripped(block: Json) -> Json | None:
    text = _BILLING.sub("", block["text"])
    return {**block, "text": text} if text else None


# Blocks

_KIND = re.compile(r"[a-z_]{1,64}")
_NAMES = ("title", "name", "tool_name", "query")
_ABOUT = ("title", "source", "url")
_TEXTS = ("text", "stdout", "stderr", "lines", "content", "tool_references")
"""Where the blocks of Anthropic's servers have what they say.  What is encrypted is not read."""
_SOURCES = {"text": "data", "content": "content"}
"""Where a document's source has its text, by the source's type."""


def plain_blocks(block: Json, evidence: Evidence) -> list[Json]:
    """A block that hosts of open models do not take, as blocks of texts and images."""
    blocks: list[Json] = []
    for are_texts, parts in groupby(_parts(block, evidence, 0), lambda part: isinstance(part, str)):
        if are_texts:
            blocks.append({"type": "text", "text": "\n".join(map(str, parts))})
        else:
            blocks += [part for part in parts if isinstance(part, dict)]
    return blocks


def _parts(block: Json, evidence: Evidence, depth: int) -> list[Part]:
    kind = string(block.get("type"))
    if kind == "document":
        return _document(block, evidence, depth)
    if kind == "tool_reference":
        evidence.note("written as a line", f"a block {kind}")
        return [f"Loaded: {string(block.get('tool_name'))}"]
    said = [part for name in _TEXTS for part in _said(block.get(name), evidence, depth + 1)]
    if said and _KIND.fullmatch(kind):
        evidence.note("written out", f"a block {kind}")
        return _element(kind, block, said)
    evidence.note("written as a line", f"a block {kind}")
    return [f"[{kind}: {', '.join(_words(block))}]", *said]


def _words(block: Json) -> Iterator[str]:
    """What names a block: a title, a tool, and what that was given."""
    given = block.get("input")
    yield from (block[name] for name in _NAMES if string(block.get(name)))
    yield from filter(string, given.values() if isinstance(given, dict) else ())


def _document(block: Json, evidence: Evidence, depth: int) -> list[Part]:
    given = block.get("source")
    source: Json = given if isinstance(given, dict) else {}
    kind = string(source.get("type"))
    said = list(_said(source.get(_SOURCES.get(kind, "")), evidence, depth + 1))
    if said:
        evidence.note("written out", "a block document")
        return _element("document", block, [*filter(None, [string(block.get("context"))]), *said])
    is_pdf = kind == "url" or source.get("media_type") == "application/pdf"
    what = "PDF" if is_pdf else "document of this kind"
    evidence.note("left out", f"a {what}")
    titles = [string(block.get("title")), string(source.get("url"))]
    named = ", ".join(filter(None, titles)) or "no title"
    todo = f"this host takes no {what}. To read it, use a tool that gives its text."
    return [f"[document: {named}. It was left out: {todo}]"]


def _element(kind: str, block: Json, said: list[Part]) -> list[Part]:
    about = ((name, string(block.get(name))) for name in _ABOUT)
    attributes = "".join(f" {name}={quoteattr(value)}" for name, value in about if value)
    return [f"<{kind}{attributes}>", *said, f"</{kind}>"]


def _said(value: object, evidence: Evidence, depth: int) -> Iterator[Part]:
    """The texts and images of what stands inside a block."""
    if isinstance(value, str):
        yield from filter(None, [value])
    elif isinstance(value, list) and depth < MAX_INNER:
        for each in value:
            yield from _said(each, evidence, depth + 1)
    elif isinstance(value, dict) and depth < MAX_INNER:
        kind = value.get("type")
        if kind == "image":
            yield value
        elif kind in ("document", "tool_reference"):
            yield from _parts(value, evidence, depth)
        else:
            title, place = (string(value.get(name)) for name in ("title", "url"))
            yield from filter(None, [f"{title} ({place})" if title and place else title or place])
            if error := string(value.get("error_code")):
                yield f"It failed: {error}"
            for name in _TEXTS:
                yield from _said(value.get(name), evidence, depth + 1)
