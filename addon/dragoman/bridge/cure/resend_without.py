"""A chat request that its host has refused for something that can be left out, as it is sent once
more.

What is changed is what the host's words name, in one thing at a time:

| the host says                                        | what is sent then                     |
|------------------------------------------------------|---------------------------------------|
| ``max_tokens`` is too much, for the model or the rest of its context | as many as there are  |
| ``max_tokens`` has another name                      | that name                             |
| ``reasoning_content``, or ``reasoning``, is unknown  | ``reasoning``, or no thoughts         |
| the model takes no images, or texts alone            | a line in the place of each           |
| no ``response_format`` of this kind                  | none, and a line with the schema      |
| a field is unknown, or not for this model            | none                                  |

A conversation that is too long stays refused: its client makes it shorter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...wire.errors import MAX_SAID
from ...wire.json_codec import Json, array, dumps, objects

MAX_TIMES = 5
"""How often a request is sent again: some hosts name one field at a time."""
STATUSES = frozenset({400, 404, 415, 422})
"""Of such refusals; OpenRouter says 404 to images."""
NO_IMAGES = "[An image was left out: this model reads no images.]"
_LIMITS = ("max_tokens", "max_completion_tokens")
_FEWEST = 1024
"""Tokens of an answer that are worth asking for; with fewer left the conversation is too long."""


@dataclass(frozen=True, slots=True)
class Changed:
    chat: Json
    how: str
    """For the record."""


def once_more(chat: Json, said: str, *, lasting: bool = False) -> Changed | None:
    """The chat request as it is sent again after this refusal, the text of an error; None if
    nothing in it can be changed.  `lasting`: it was the refusal of an earlier request, so what it
    says of that one's length says nothing."""
    said = said[:MAX_SAID]
    if lasting and any(_found(_REST, said)):
        return None
    return next((made for change in _CHANGES if (made := change(chat, said))), None)


# The limit of the answer

_N = r"(\d{2,9})"
_REST = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        r"\d > (?P<all>\d{2,9}) - (?P<used>\d{1,9})",
        r"context length is (?P<all>\d{2,9}) tokens.{0,80}?\((?P<used>\d{1,9}) in the messages",
        r"must be <= (?P<all>\d{2,9})\. Given: (?P<used>\d{1,9}) `inputs`",
        r"passed (?P<used>\d{1,9}) input tokens.{0,120}? context length is only (?P<all>\d{2,9})",
    )
)
"""How hosts say what of a context is left: vLLM, OpenAI and many, TGI, a newer vLLM."""
_NAME = r"max_(?:completion_|new_|output_)?tokens"
_MOST = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        rf"supports at most {_N} completion tokens",
        rf"{_NAME}\W{{0,4}} (?:is|should be|must be in)\W{{0,20}}\[\d{{1,6}}, ?{_N}\]",
        rf"{_NAME}\b.{{0,40}}?(?:equal to|at most|<=|no more than|not exceed)\W{{1,4}}{_N}",
        rf"{_NAME}: \d{{1,9}} > {_N}",
    )
)
"""How they say what a model gives at most: OpenAI; DeepSeek, Alibaba; Groq; Anthropic."""


def _with_fewer(chat: Json, said: str) -> Changed | None:
    name = next((name for name in _LIMITS if type(chat.get(name)) is int), None)
    if name is None:
        return None
    most = next(_allowed(said), 0)
    if not _FEWEST <= most < chat[name]:
        return None
    return Changed({**chat, name: most}, f"with {most} for {name}")


def _allowed(said: str) -> Iterator[int]:
    yield from (int(found["all"]) - int(found["used"]) for found in _found(_REST, said))
    yield from (int(found[1]) for found in _found(_MOST, said))


def _found(patterns: tuple[re.Pattern[str], ...], said: str) -> Iterator[re.Match[str]]:
    yield from filter(None, (each.search(said) for each in patterns))


_USE_OTHER = re.compile(
    r"'(max_tokens|max_completion_tokens)' is not supported\b.{0,60}\buse\b", re.IGNORECASE
)


def _under_other_name(chat: Json, said: str) -> Changed | None:
    found = _USE_OTHER.search(said)
    if found is None or found[1] not in chat:
        return None
    other = _LIMITS[1 - _LIMITS.index(found[1])]
    renamed = {(other if name == found[1] else name): value for name, value in chat.items()}
    return Changed(renamed, f"with {other}")


# What is not taken at all

_REFUSED = re.compile(
    r"(?:not|n't) (?:be )?(?:support|permit|allow|accept|a multi)|unsupported|unknown|unexpected"
    r"|unrecogni[sz]ed|unavailable|forbidden|invalid|extra inputs|must be|only supports",
    re.IGNORECASE,
)

# Thoughts of earlier turns

_OF_THOUGHTS = re.compile(r"['\".](reasoning_content|reasoning)['\"]", re.IGNORECASE)
_MISSING = re.compile(r"missing|passed back", re.IGNORECASE)


def _without_thoughts(chat: Json, said: str) -> Changed | None:
    """Cerebras takes `reasoning` alone, Groq neither."""
    found = _OF_THOUGHTS.search(said)
    if found is None or _REFUSED.search(said) is None or _MISSING.search(said):
        return None
    refused, messages = found[1].lower(), objects(chat.get("messages"))
    if not any(refused in message for message in messages):
        return None
    if refused == "reasoning":
        how = "without thoughts"
        sent = [{k: v for k, v in each.items() if k != refused} for each in messages]
    else:
        how = "with reasoning for reasoning_content"
        names = {refused: "reasoning"}
        sent = [{names.get(k, k): v for k, v in each.items()} for each in messages]
    return Changed({**chat, "messages": sent}, how)


# Images

_OF_IMAGES = re.compile(r"image|\bvision\b|multi-?modal|must be a string", re.IGNORECASE)
_OF_ONE_IMAGE = re.compile(r"exceed|too large|too many|process|decode|download", re.IGNORECASE)
"""An image of this kind would be taken if it were another; Claude Code knows what to do."""


def _without_images(chat: Json, said: str) -> Changed | None:
    if not (_OF_IMAGES.search(said) and _REFUSED.search(said)) or _OF_ONE_IMAGE.search(said):
        return None
    messages = [_without_image(message) for message in objects(chat.get("messages"))]
    if messages == chat.get("messages"):
        return None
    return Changed({**chat, "messages": messages}, "without images")


def _without_image(message: Json) -> Json:
    parts = array(message.get("content"))
    if not any(_is_image(part) for part in parts):
        return message
    lines = [NO_IMAGES if _is_image(part) else part.get("text") for part in parts]
    if not all(isinstance(line, str) for line in lines):
        sent = [{"type": "text", "text": NO_IMAGES} if _is_image(part) else part for part in parts]
        return {**message, "content": sent}
    return {**message, "content": "\n".join(map(str, lines))}


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image_url"


# Fields

_FIELDS = {
    **{
        name: rf"\b{name}\b" for name in ("parallel_tool_calls", "stream_options", "top_k", "top_p")
    },
    "reasoning_effort": r"\breasoning[_.]?effort\b",
    # These are words as well.
    **{name: rf"['\"`.]{name}\b" for name in ("thinking", "temperature", "stop")},
}
"""What a turn does without, as far as it goes, and how hosts name it."""
_FIELD_IN = {name: re.compile(words, re.IGNORECASE) for name, words in _FIELDS.items()}
_FORM_IN = re.compile(r"response[_ ]format|json_schema|structured output", re.IGNORECASE)


def _without_format(chat: Json, said: str) -> Changed | None:
    form = chat.get("response_format")
    if not isinstance(form, dict) or not (_FORM_IN.search(said) and _REFUSED.search(said)):
        return None
    rest = {name: value for name, value in chat.items() if name != "response_format"}
    held = form.get("json_schema")
    schema = held.get("schema") if isinstance(held, dict) else None
    line = "Answer with JSON alone"
    if schema is not None:
        line = f"{line}, of this JSON Schema: {dumps(schema).decode()}"
    asked = {"role": "user", "content": line}
    return Changed(
        {**rest, "messages": [*array(chat.get("messages")), asked]}, "without response_format"
    )


def _without_field(chat: Json, said: str) -> Changed | None:
    refused = [name for name, words in _FIELD_IN.items() if name in chat and words.search(said)]
    if not refused or _REFUSED.search(said) is None:
        return None
    rest = {name: value for name, value in chat.items() if name not in refused}
    return Changed(rest, f"without {' and '.join(refused)}")


_CHANGES: tuple[Callable[[Json, str], Changed | None], ...] = (
    _under_other_name,
    _with_fewer,
    _without_thoughts,
    _without_images,
    _without_format,
    _without_field,
)
