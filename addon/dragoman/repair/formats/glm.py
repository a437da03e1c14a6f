"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``, and GLM-5.2 ``<tool_call>NAME</arg_value>``
for a call without arguments.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..events import Arguments
from .hermes import CLOSE, OPEN, OPENED, TAGS
from .marker_set import MarkerPattern, begun, so_far
from .protocol import WORD, LeakFormat, named
from .tagged_arguments import TaggedArguments
from .tagged_calls import TaggedCalls
from .tags import TagKind, plain_syntax

KEY, _VALUE_END = "<arg_key>", "</arg_value>"
_FOLLOWS = (KEY, CLOSE, _VALUE_END)
_HEADER = MarkerPattern(
    rf"\s*(?P<name>{WORD})\s*(?:>\s*(?=\{{))?(?P<follows>\{{|{'|'.join(_FOLLOWS)})",
    rf"\s*(?:(?P<word>{WORD})\s*(?:>\s*|{so_far(_FOLLOWS)}))?",
)
_TAGS = plain_syntax(
    r"arg_key>(?P<key>[^<>\n]{1,128})</arg_key>\s{0,100}<arg_value>",
    so_far(("arg_key>",), "[^<>\n]{1,128}", ("</arg_key>",), r"\s{0,100}", ("<arg_value>",)),
    {_VALUE_END: TagKind.ARGUMENT_END, OPEN: TagKind.CALL, CLOSE: TagKind.CALL_END},
)


def arguments_of(tags: str, schema: object) -> str:
    """The arguments in the tags of a call of which the last tags may be missing, as JSON."""
    arguments = TaggedArguments(_TAGS, schema)
    arguments.push(tags + _VALUE_END + CLOSE)
    while not arguments.over and arguments.step():
        pass
    if not arguments.over:
        arguments.finish()
    return "".join(event.text for event in arguments.take() if isinstance(event, Arguments))


GLM = LeakFormat(
    "glm",
    (OPEN, KEY),
    MarkerPattern(rf"{OPENED}(?=[A-Za-z0-9_])", rf"(?:{begun(OPEN)}|{OPENED})\Z"),
    partial(TaggedCalls, replace(_TAGS, in_json=TAGS, header=_HEADER)),
    named(),
)
