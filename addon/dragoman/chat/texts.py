"""The fields of a message or delta that carry text.

Hosts send reasoning as ``reasoning``, ``reasoning_content``, ``reasoning_details``, or as several
of them with the same text.  Fields with the same text are one passage: scanned once, written
alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REASONING = ("reasoning_content", "reasoning")
ADDED_REASONING = ("reasoning_content",)
"""The field for reasoning that came in none of its own."""
DETAILS = "reasoning_details"
"""A list of objects, each with a text, a summary, or what is neither."""
CONTENT = ("content",)
LISTS = {DETAILS: "reasoning.text", "content": "text"}
"""The fields that may be a list of objects, and the type of one with a text."""
TEXT_FIELDS = (*REASONING, DETAILS, *CONTENT)
FIELDS_OF = {"reasoning": (*REASONING, DETAILS), "text": (*CONTENT, "refusal")}
"""The fields of the reasoning, and of the answer after it."""


@dataclass(slots=True)  # not frozen: one is made for each text
class Passage:
    """A text and the fields that carry it."""

    fields: tuple[str, ...]
    text: str


def passages(delta: dict[str, Any]) -> list[Passage]:
    """The texts of a delta or message that are repaired, in the model's order."""
    found: dict[str, tuple[str, ...]] = {}
    for name in TEXT_FIELDS:
        text = _text(name, delta.get(name))
        if text and name == "content":
            return [Passage(f, t) for t, f in found.items()] + [Passage(CONTENT, text)]
        if text:
            found[text] = (*found.get(text, ()), name)
    return [Passage(fields, text) for text, fields in found.items()]


def reasoning(delta: Mapping[str, Any]) -> str:
    """The reasoning of a delta or message: equal texts count once, and details repeat what other
    fields hold."""
    texts = [text for name in REASONING if (text := delta.get(name)) and isinstance(text, str)]
    if not texts:
        return _text(DETAILS, delta[DETAILS]) if delta.get(DETAILS) else ""
    return "".join(dict.fromkeys(texts))


def _text(name: str, value: object) -> str:
    if isinstance(value, str) and name != DETAILS:
        return value
    details = value if isinstance(value, list) and name in LISTS else []
    return "".join(detail[key] for detail in details if (key := _text_key(name, detail)))


def written(name: str, text: str, original: object) -> object:
    """The value of field `name` that says `text`, of the shape of `original`."""
    if name != DETAILS and not (name in LISTS and isinstance(original, list)):
        return text
    details = original if isinstance(original, list) else []
    first: dict[str, Any] = next((each for each in details if _text_key(name, each)), {})
    first = first or {"type": LISTS[name], "text": ""}
    return [{**first, _text_key(name, first): text}]


def without_text(name: str, original: object) -> list[object]:
    """What field `name` holds besides text (entries with an encrypted text, say)."""
    if name not in LISTS or not isinstance(original, list):
        return []
    return [detail for detail in original if not _text_key(name, detail)]


def rewritten(name: str, text: str, original: object) -> object:
    """The value of field `name` that says `text` instead of its own, and all else that it held."""
    new = written(name, text, original)
    if not isinstance(new, list) or not isinstance(original, list):
        return new
    at = next((at for at, each in enumerate(original) if _text_key(name, each)), 0)
    new = new if text or name == DETAILS else []
    rest = [without_text(name, part) for part in (original[:at], original[at:])]
    return [*rest[0], *new, *rest[1]]


def _text_key(name: str, detail: Any) -> str:
    """The key of the text in a detail, or in a part of the content; empty if it has none."""
    if not isinstance(detail, dict):
        return ""
    if name in CONTENT:
        is_text = detail.get("type") in ("text", "output_text")
        return "text" if is_text and isinstance(detail.get("text"), str) else ""
    return next((key for key in ("text", "summary") if isinstance(detail.get(key), str)), "")
