"""The refusals of chat requests that are known by their text, and what a user can do.

They come all the same where a request is not cured: for models of no known family, with
``dragoman_cure`` off, and where only the user can change something.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Cure = Literal["off", "on", "cured"]
"""Whether requests like the refused one are cured, and whether it was."""


@dataclass(frozen=True, slots=True)
class Refusal:
    name: str
    """In two or three words."""
    words: re.Pattern[str]
    """How hosts say it."""
    advice: str
    curable: bool = True

    def told(self, cure: Cure) -> str:
        """What is the matter, and what a user can do."""
        return f"{self.advice}: {_CURES[cure]}" if self.curable else self.advice


_CURES: dict[Cure, str] = {
    "off": "dragoman_cure=auto does so for models whose family it knows by their name",
    "on": "dragoman_cure is on, but finds nothing of it in the request; please report the refusal",
    "cured": "the request was changed for it, and is refused all the same; please report the "
    "refusal, with the view LLM request, which shows what was changed",
}


_CURABLE = (
    (
        "reasoning missing",
        r"reasoning_content\b.{0,200}\b(?:missing|must be passed back)"
        r"|thinking in the thinking mode|missing .?reasoning_content",
        "the client left out the reasoning of earlier calls; turn thinking off, or have it "
        "put back",
    ),
    (
        "tool schema",
        r"moonshot flavored json schema",
        "a tool's schema is outside Moonshot's subset; leave that tool out",
    ),
    (
        "sampling parameters",
        r"invalid (?:temperature|top_p|presence_penalty|frequency_penalty)\b",
        "the model has fixed sampling parameters; take them out of the client",
    ),
    (
        "empty message",
        r"message at position \d+ .{0,200}must not be empty|text content is empty"
        r"|content or tool_calls must be set",
        "the conversation holds an empty message; leave it out, or begin anew",
    ),
    (
        "call without output",
        r"did not have response messages|must be followed by tool messages"
        r"|tool_call_id\b.{0,200}\bis not found|must be a response to a prece\w+ message",
        "a call in the conversation has no output, or an output no call; go back before it, or "
        "begin anew",
    ),
    (
        "tool_choice refused",
        r"tool_choice\b.{0,200}\b(?:thinking|does not support)|not support this tool_choice",
        "a thinking model cannot be forced to call; set tool_choice to auto",
    ),
    (
        "tool name",
        r"function name is invalid|function\.name'?: string does not match",
        "a tool's name holds what the host does not take; rename or leave out",
    ),
    (
        "system message refused",
        r"system message must be at the beginning|invalid chat setting"
        r"|developer is not one of|role developer\b",
        "a message of the system or the developer is refused; move it to the start",
    ),
    (
        "turns do not alternate",
        r"unexpected role .?user.? after role|roles must alternate",
        "the user speaks after a tool or twice in a row; let the assistant speak in between",
    ),
)
_OTHERS = (
    (
        "too many tools",
        r"max of \d+ tools",
        "too many tools; switch off MCP servers or tools of the client",
    ),
    (
        "plan for other clients",
        r"only available for coding agents|access_terminated",
        "this plan is for certain clients only; use another key, or one of those clients",
    ),
)
_REFUSALS = (
    *(Refusal(name, re.compile(words, re.IGNORECASE), advice) for name, words, advice in _CURABLE),
    *(
        Refusal(name, re.compile(words, re.IGNORECASE), advice, curable=False)
        for name, words, advice in _OTHERS
    ),
)


_FIELD = (
    r"(?:messages|input|tools?|tool_choice|tool_calls?|model|temperature|top_p|top_k|top_logprobs"
    r"|logprobs|max_(?:completion_|output_)?tokens|stream(?:_options)?|stop(?:_sequences)?|system"
    r"|instructions|reasoning(?:_effort)?|thinking|response_format|text|store|metadata|user|seed|n"
    r"|(?:presence|frequency)_penalty|parallel_tool_calls|service_tier|previous_response_id"
    r"|include|truncation|prompt|role|content|name|function|output_config|logit_bias)"
    r"(?:[.\[][\w.\[\]-]{0,60})?"
)
"""A field of a request, or a path to one within it."""
_IS_FIELD = re.compile(_FIELD)
# A quoted field, anything else that is quoted, or a word; linear, as each is short.
_TOKEN = re.compile(
    rf"""['"`]({_FIELD})['"`]|(?<!\w)(['"`]).{{0,300}}?\2|(\S{{1,300}})""", re.DOTALL
)
_WORD = re.compile(r"[^\W\d](?:[^\W\d]|['-]){0,23}|\d{1,7}")
"""In any script."""
_SIGNS = str.maketrans(
    {
        **dict(zip("：，。；！（）", (": ", ", ", ". ", "; ", "! ", " (", ") "), strict=True)),
        **dict.fromkeys("“”„«»「」", '"'),
    }
)
"""Those of other scripts, as they are in English."""
_SAYS_NOTHING = re.compile(
    r"(?:(?>bad|invalid|request|error|code|status|upstream|provider|api|validation|\d{3}|-"
    r"|[\w.]{0,40}?(?:error|exception))\s*+)++:\s++|(?:the|this|your|an?)\s++",
    re.IGNORECASE,
)
"""What messages begin with."""


def reason_in(message: str, param: str = "") -> tuple[str, str]:
    """Why a host refuses a request, in its own words: the field that is wrong, and what is wrong
    with it, up to what may be of the request.  No quoted value, no key."""
    message = message.translate(_SIGNS).lstrip()
    for _ in range(3):
        said = _SAYS_NOTHING.match(message)
        message = message[said.end() :] if said else message
    field, words = param if _IS_FIELD.fullmatch(param) else "", list[str]()
    ends = False
    for quoted, _, raw in _TOKEN.findall(message):
        if ends:
            field = field or quoted  # Unsupported parameter: 'max_tokens'
            break
        word = raw.strip("()").rstrip(",;.:!")
        named = quoted or (word if "." in word or "_" in word or "[" in word else "")
        if named and _IS_FIELD.fullmatch(named):
            field = field or named
            if words and named != field:
                words.append(named)
        elif _WORD.fullmatch(word):
            words.append(word)
        elif raw.startswith(("{", "[", "<")):
            break
        ends = bool(words) and raw.endswith((".", ":", "!"))
    return field, " ".join(words)


def refusal_in(error: str) -> Refusal | None:
    """The refusal that an error with this text is; None if it is not a known one."""
    return next((each for each in _REFUSALS if each.words.search(error)), None)
