"""Reads chat chunks, in which every field may be missing, null, or of another type.

A message of a whole reply has the fields of a delta and is read by the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..wire.json_codec import Json, array, objects, string
from .texts import CONTENT, FIELDS_OF, REASONING, reasoning

DeltaPart = tuple[Literal["text", "reasoning", "refusal"], str]

SOURCES = ("search_results", "citations")
"""The fields in which Perplexity and xAI list what a text rests on.  The first has titles, so it is
read first."""
KNOWN_FIELDS = frozenset(
    {
        *("role", "name", "tool_calls", "function_call", "annotations"),
        *SOURCES,
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


def is_chunk(value: Mapping[str, Any]) -> bool:
    """Whether a value is a chunk, or a whole completion."""
    return "choices" in value


def choices(chunk: Mapping[str, Any]) -> list[ChoiceDelta]:
    found = []
    for position, value in enumerate(array(chunk.get("choices"))):
        if isinstance(value, dict):
            delta, message = value.get("delta"), value.get("message")
            whole = not isinstance(delta, dict)
            delta = message if whole else delta
            delta = delta if isinstance(delta, dict) else {}
            found.append(ChoiceDelta(choice_index(value, position), delta, whole, value))
    return found


def by_choice(completion: Any) -> list[Any]:
    """A completion of several choices as one for each of them."""
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list) or len(choices) < 2:
        return [completion]
    return [
        completion | {"choices": [{"index": at} | value if isinstance(value, dict) else value]}
        for at, value in enumerate(choices)
    ]


def choice_index(value: Json, position: int) -> int:
    """Its index, or its position where hosts leave the index out."""
    index = value.get("index")
    return index if type(index) is int and index >= 0 else position


_BESIDE = ("finish_reason", "logprobs", "usage", "message", "error", *SOURCES)
"""What a choice may hold beside its delta, and is read."""


class LoneText(NamedTuple):
    """All that a chunk says, perhaps beside a role and a usage."""

    fields: tuple[str, ...]
    """The fields of its delta that are the text; none if the arguments of its one call are."""
    text: str


def lone_text(chunk: Any) -> LoneText | None:
    """The one text of a chunk of one choice: of the answer, of thoughts, or of the arguments of a
    call; None if it says more.  Nearly all chunks are so, and this is all that is read of them."""
    choices = chunk.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
        return None
    choice = choices[0]
    delta = choice.get("delta")
    if type(delta) is not dict or any(map(choice.get, _BESIDE)):
        return None
    fields = tuple([name for name, value in delta.items() if value and name != "role"])
    if fields == CONTENT:
        text = delta["content"]
    elif fields == ("tool_calls",):
        fields, text = (), _only_arguments(delta["tool_calls"])
    elif fields and set(fields) <= set(REASONING):
        text = delta[fields[0]]
        if len(fields) > 1:
            fields = REASONING
            text = text if delta[fields[0]] == delta[fields[1]] else None
    else:
        return None
    if type(text) is not str:
        return None
    return LoneText(fields, text)


def _only_arguments(calls: Any) -> str | None:
    """The arguments of the one element of ``tool_calls``, if it has nothing else."""
    if type(calls) is not list or len(calls) != 1 or type(calls[0]) is not dict:
        return None
    index, function = calls[0].get("index"), calls[0].get("function")
    if type(function) is not dict or calls[0].get("id") or function.get("name"):
        return None
    return string(function.get("arguments")) or None if type(index) is int else None


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


def stopped_by(choice: Json) -> str:
    """The sequence at which a turn stopped, in the fields of vLLM and SGLang; "" if none is."""
    return string(choice.get("stop_reason")) or string(choice.get("matched_stop"))


def unknown_fields(delta: Json) -> bool:
    """Whether the delta has a field that no part of this package reads."""
    return any(map(delta.get, delta.keys() - KNOWN_FIELDS))


def token_logprobs(tokens: Sequence[Any]) -> list[Json]:
    """Token log probabilities in the form of the Responses API, without malformed ones."""
    found = []
    for token in tokens:
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
    """The sources in a chunk or a delta as annotations: addresses, or objects that have one. Their
    place in the text is unknown."""
    sources = [source for name in SOURCES for source in array(holder.get(name))]
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
