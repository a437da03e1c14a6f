"""Reads chat chunks, in which every field may be missing, null, or of another type.

A message of a whole reply has the fields of a delta and is read by the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .chat_text import FIELDS_OF, passages, reasoning, without_text
from .json_codec import Json, array, objects, string

DeltaPart = tuple[Literal["text", "reasoning", "refusal"], str]

KNOWN_FIELDS = frozenset(
    {
        *("role", "name", "tool_calls", "function_call", "annotations", "citations"),
        *(name for names in FIELDS_OF.values() for name in names),
    }
)
_PART_TEXTS: dict[str, tuple[Literal["text", "reasoning", "refusal"], str]] = {
    "text": ("text", "text"),
    "output_text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "thinking": ("reasoning", "thinking"),
    "reasoning": ("reasoning", "text"),
}


@dataclass(slots=True)  # not frozen: one is made for nearly every chunk
class ChoiceDelta:
    """A choice of a chunk or of a whole reply."""

    index: int
    delta: Json
    """Its delta, else its message; empty if it has neither."""
    whole: bool
    fields: Json


def choices(chunk: Mapping[str, Any]) -> list[ChoiceDelta]:
    values = enumerate(array(chunk.get("choices")))
    return [read_choice(value, position) for position, value in values if isinstance(value, dict)]


def read_choice(value: Json, position: int) -> ChoiceDelta:
    delta = value.get("delta")
    whole = not isinstance(delta, dict)
    delta = value.get("message") if whole else delta
    delta = delta if isinstance(delta, dict) else {}
    return ChoiceDelta(choice_index(value, position), delta, whole, value)


def choice_index(value: Json, position: int) -> int:
    """Its index, or its position where hosts leave the index out."""
    index = value.get("index")
    return index if type(index) is int and index >= 0 else position


@dataclass(frozen=True, slots=True)
class DeltaText:
    """The content of a chunk that has one text, and perhaps a usage."""

    text: str
    fields: tuple[str, ...]
    """Those of the delta that carry it; none for the arguments of a call."""
    call: int | None = None
    """The index of that call."""
    choice: int = 0
    """The index of the choice."""


def only_text(chunk: Any) -> DeltaText | None:
    """The text of a chunk without anything else but a usage; None for any other chunk."""
    choice = _only_choice(chunk)
    if choice is None:
        return None
    said = {name: value for name, value in choice.delta.items() if value and name != "role"}
    match said:
        case {"tool_calls": [{"index": int(call), "function": function} as element], **others}:
            text = "" if others else _only_arguments(element, function)
            return DeltaText(text, (), call, choice.index) if text else None
    found = passages(said)
    fields = found[0].fields if len(found) == 1 else ()
    besides = any(without_text(name, said[name]) for name in fields)
    if besides or not fields or said.keys() != set(fields):
        return None
    return DeltaText(found[0].text, fields, choice=choice.index)


def only_counts(chunk: Any) -> bool:
    """Whether a chunk has a usage and a choice, and nothing else."""
    choice = _only_choice(chunk)
    return choice is not None and bool(chunk.get("usage")) and not any(choice.delta.values())


def _only_choice(chunk: Any) -> ChoiceDelta | None:
    """The choice of a chunk that has one with a delta alone."""
    found = choices(chunk) if isinstance(chunk, dict) else []
    if len(found) != 1 or len(chunk["choices"]) != 1 or found[0].whole:
        return None
    fields = found[0].fields
    others = ("finish_reason", "logprobs", "usage", "message")
    return None if any(map(fields.get, others)) else found[0]


def text_of(chunk: Any) -> str:
    """The text of such a chunk; empty for any other."""
    found = only_text(chunk)
    return found.text if found else ""


def _only_arguments(call: Json, function: Any) -> str:
    if not isinstance(function, dict) or call.get("id") or function.get("name"):
        return ""
    return string(function.get("arguments")) if type(call["index"]) is int else ""


def texts(delta: Json) -> list[DeltaPart]:
    """All texts of a delta or message, in the order in which the model wrote them."""
    content = delta.get("content")
    found: list[DeltaPart] = [("reasoning", reasoning(delta))]
    found += content_parts(content)[0] if isinstance(content, list) else [("text", string(content))]
    found.append(("refusal", string(delta.get("refusal"))))
    return [(kind, words) for kind, words in found if words]


def content_parts(content: list[Any]) -> tuple[list[DeltaPart], int]:
    """A list of parts (Mistral) as texts, and how many parts are no text."""
    pieces: list[DeltaPart] = []
    others = 0
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        kind, name = _PART_TEXTS.get(string(kind), (None, ""))
        if kind is None:
            others += 1
            continue
        found = part.get(name)
        if isinstance(found, list):
            found = "".join(string(inner.get("text")) for inner in objects(found))
        if string(found):
            pieces.append((kind, found))
    return pieces, others


def unknown_fields(delta: Json) -> bool:
    """Whether the delta has a field that no part of this package reads."""
    return any(map(delta.get, delta.keys() - KNOWN_FIELDS))


def logprobs(choice: Json) -> list[Json]:
    """Token log probabilities in the form of the Responses API, without malformed ones."""
    value = choice.get("logprobs")
    found = []
    for token in array(value.get("content")) if isinstance(value, dict) else ():
        if (logprob := _logprob(token)) is not None:
            alternatives = map(_logprob, array(token.get("top_logprobs")))
            found.append(logprob | {"top_logprobs": [other for other in alternatives if other]})
    return found


def _logprob(value: Any) -> Json | None:
    if not isinstance(value, dict) or not isinstance(value.get("token"), str):
        return None
    number, raw = value.get("logprob"), value.get("bytes")
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if isinstance(number, float) and not math.isfinite(number):
        return None
    if not (isinstance(raw, list) and all(type(byte) is int and 0 <= byte < 256 for byte in raw)):
        raw = []
    return {"token": value["token"], "bytes": raw, "logprob": number}


def url_annotations(holder: Json) -> tuple[list[Json], int]:
    """Annotations in the form of the Responses API, and how many could not be read."""
    value = holder.get("annotations")
    if not isinstance(value, list):
        return [], 0
    read = [_annotation(annotation) for annotation in value]
    return [annotation for annotation in read if annotation], read.count(None)


def citations(holder: Json) -> list[Json]:
    """The sources in a chunk, a choice or a delta as annotations: addresses, or objects that have
    one. Their place in the text is unknown."""
    sources = array(holder.get("citations"))
    sources = [{"url": source} if isinstance(source, str) else source for source in sources]
    return [annotation for annotation in map(_annotation, sources) if annotation]


def _annotation(value: Any) -> Json | None:
    """``{"type": "url_citation", "url_citation": {…}}`` (OpenAI), or with the inner fields
    in the annotation itself (OpenRouter)."""
    if not isinstance(value, dict) or value.get("type", "url_citation") != "url_citation":
        return None
    citation = value.get("url_citation", value)
    if not isinstance(citation, dict) or not isinstance(citation.get("url"), str):
        return None
    start, end = citation.get("start_index"), citation.get("end_index")
    return {
        "type": "url_citation",
        "url": citation["url"],
        "title": string(citation.get("title")),
        "start_index": start if type(start) is int else 0,
        "end_index": end if type(end) is int else 0,
    }
