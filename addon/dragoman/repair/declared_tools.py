"""Call headers: from what Kimi wrote before the arguments to the name of a tool.

The model should write ``functions.<name>:<index>``.  It also writes whatever it saw
in its history, and hosts mangle that further.  `resolve` reads every form seen in the
wild.  A mangled form counts only if it leads to exactly one declared tool; a header
with no name in it is left to the arguments (`DeclaredTools.meant_by`): exactly one declared
tool's schema must accept them.  A best guess would silently run the wrong tool, so
there is none: such a call keeps its literal header as its name, where it can be seen.
A header that is a name is never read as another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..wire.json_codec import NotJson, loads
from ..wire.slices import Slices, drained
from .schema import OutOfSteps, Steps, accepts
from .tool_index import ToolIndex

_NATIVE = re.compile(r"functions\.(?P<name>[\w.\-]+)\s*:\s*\d+\Z")
_K3 = re.compile(r"(?P<name>[\w.\-]+)\s*:\s*\d+\Z")
_NAMELESS = re.compile(
    r"(?:functions?[._:]?)?"
    r"(?:\d+|(?:call|chatcmpl|toolu|fc)[-_]?(?:tool[-_])?[0-9A-Za-z]*\d[-0-9A-Za-z_]*|call[-_]\w+"
    r"|[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12})(?::\d+)?\Z"
)
_COLON = re.compile(r"\s*:\s*")
_LETTER = re.compile(r"[A-Za-z0-9]")
_PREFIX = re.compile(r"\Afunctions?[._:(]*", re.IGNORECASE)
_SUFFIX = re.compile(r"[):\s._-]*\d+(?:\.\d+)?\Z")
AT_END = re.compile(r"[\w.\-()]+:\d+\s*\Z")
"""A header at the end of a text: that of a call whose begin markers the host has stripped."""
_ID = re.compile(r"[A-Za-z0-9_.:\-]{2,128}\Z")
_WORD = r"[A-Za-z0-9_.:/()@-]"
_SO_FAR = re.compile(rf"\s*{_WORD}*(?:\s*:\s*{_WORD}*)*\s*\Z")
_FUNCTIONS = "functions."
HEADER_LIMIT = 256
"""Characters between a call's begin marker and its arguments, blanks included."""
WORD_LIMIT = 128
"""Characters of the word itself: ids of hosts and clients have some forty at the most."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a header says: the tool's name (None: not in it) and the form it was in."""

    name: str | None
    form: str
    certain: bool = True
    """Whether a call was meant even if no arguments follow: the tool is declared, or the
    header has the index that Kimi writes."""


def may_be_word(text: str) -> bool:
    """Whether `text` is, or could grow into, what may stand before a call's arguments: one
    word, with blanks around it and around its ``:``."""
    if len(text) > HEADER_LIMIT or _SO_FAR.match(text) is None:
        return False
    return len(_COLON.sub(":", text.strip())) <= WORD_LIMIT


def word_of(text: str) -> str | None:
    """The header that `text` is, without blanks; None if it is none."""
    return _COLON.sub(":", text.strip()) if may_be_word(text) else None


def is_call_id(header: str) -> bool:
    """Whether `header` can serve as the call's id; a bare counter cannot."""
    return _ID.match(header) is not None and not header.isdigit()


class DeclaredTools:
    """What a request says of the calls that its reply may hold."""

    def __init__(
        self,
        schemas: Mapping[str, object],
        *,
        model: str = "",
        forbidden: bool = False,
        called: Mapping[str, str] | None = None,
        declared: ToolIndex | None = None,
    ) -> None:
        """`schemas` are those of the declared tools, none if they are not known; `model` is
        the name that was asked for; `forbidden`: no call is wanted (``tool_choice``);
        `called` gives the tool of each call id in the history; `declared` is the index of the
        schemas, if it was made already."""
        self._schemas = schemas
        if declared is None:
            declared = ToolIndex(schemas)
            drained(declared.indexing())
        self._declared = declared
        self.model = model
        self.forbidden = forbidden
        self._called = called or {}
        self._steps = Steps()

    @classmethod
    def of_request(cls, request: object) -> DeclaredTools:
        """From a chat completions request body; anything unreadable declares nothing."""
        return drained(cls.reading(request))

    @classmethod
    def reading(cls, request: object) -> Slices[DeclaredTools]:
        """The same in slices."""
        declared = request.get("tools") if isinstance(request, dict) else None
        schemas: dict[str, object] = {}
        for tool in declared if isinstance(declared, list) else []:
            function = tool.get("function") if isinstance(tool, dict) else None
            if not isinstance(function, dict):
                continue
            name = function.get("name")
            if isinstance(name, str) and name:
                # Without "parameters" a function takes none (OpenAI's API reference).
                nothing = {"type": "object", "additionalProperties": False}
                schemas[name] = function.get("parameters", nothing)
            yield
        index = ToolIndex(schemas)
        yield from index.indexing()
        if not isinstance(request, dict):
            return cls(schemas, declared=index)
        called = yield from _called(request.get("messages"))
        model = request.get("model")
        return cls(
            schemas,
            model=model if isinstance(model, str) else "",
            forbidden=request.get("tool_choice") == "none",
            called=called,
            declared=index,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def __bool__(self) -> bool:
        return bool(self._schemas)

    def meant_by(self, arguments: str) -> str | None:
        """The one tool whose schema accepts the whole argument object; of several whose
        schemas are open, the one that declares all of its keys.  None as well if it would
        take too long to find out."""
        try:
            self._steps.take()
            value = loads(arguments or "{}")
            if not isinstance(value, dict):
                return None
            accepting = [
                name
                for name in self._declared.may_take(value)
                if accepts(self._schemas[name], value, self._steps)
            ]
        except (NotJson, OutOfSteps):
            return None
        if len(accepting) > 1:
            accepting = [n for n in accepting if value.keys() <= _properties(self._schemas[n])]
        return accepting[0] if len(accepting) == 1 else None

    def called_by(self, call_id: str) -> str | None:
        """The tool of the call in the history that has this id."""
        return self._called.get(call_id)

    def may_be_header(self, text: str) -> bool:
        """Whether `text` is, or could grow into, ``name:index`` of a declared tool."""
        text = text.lstrip()
        if not text:
            return False
        head, colon, index = text.rstrip().partition(":")
        if colon:
            name = head if head in self else head.removeprefix(_FUNCTIONS)
            return name in self and (index.isdigit() or not index)
        if _FUNCTIONS.startswith(text):
            return bool(self)
        return any(map(self._declared.may_begin, (text, text.removeprefix(_FUNCTIONS))))

    def named_by(self, header: str) -> bool:
        """Whether `header` leads to a declared tool; always true if none is known."""
        return not self or resolve(header, self).name in self

    def alike(self, name: str) -> str | None:
        """The one declared tool that differs from `name` only in ``-`` and ``_``."""
        return self._declared.alike(name)

    def longest_suffix(self, dotted: str) -> str | None:
        """The longest declared name that `dotted` ends in, at a dot."""
        return next((name for name in _suffixes(dotted) if name in self), None)


def _called(messages: object) -> Slices[dict[str, str]]:
    """The tool of each call in a history, by its id; ids that two tools share tell nothing."""
    called: dict[str, str] = {}
    ambiguous: set[str] = set()
    for message in messages if isinstance(messages, list) else []:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            call_id = call.get("id") if isinstance(call, dict) else None
            if not isinstance(name, str) or not name.strip() or not isinstance(call_id, str):
                continue
            if called.setdefault(call_id, name) != name:
                ambiguous.add(call_id)
        yield
    return {call_id: name for call_id, name in called.items() if call_id not in ambiguous}


def _properties(schema: object) -> AbstractSet[str]:
    """The names of the arguments that a schema declares."""
    declared = schema.get("properties") if isinstance(schema, dict) else None
    return declared.keys() if isinstance(declared, dict) else frozenset()


def _suffixes(dotted: str) -> Iterable[str]:
    yield dotted
    while "." in dotted:
        dotted = dotted.partition(".")[2]
        yield dotted


def resolve(header: str, tools: DeclaredTools) -> Resolution:
    """Read a call header, see `word_of`, against the declared tools."""
    if header in tools:
        return Resolution(header, "plain name")
    if called := tools.called_by(header):
        return Resolution(called, "id of an earlier call")
    native = _NATIVE.match(header)
    named = native or _K3.match(header)
    form = "native id" if native else "name:index"
    if named:
        suffix = tools.longest_suffix(named["name"])
        if suffix:
            return Resolution(suffix, form if suffix == named["name"] else "dotted name")
    mangled = _mangled(header, tools)
    if mangled:
        return Resolution(mangled, "mangled header")
    name = (named["name"] if named else header).removeprefix("functions.").strip(".:")
    if not _LETTER.search(name) or _NAMELESS.match(header):
        return Resolution(None, "header without a name")
    form = form if named else "plain name"
    return Resolution(name, f"{form}, tool not declared" if tools else form, bool(named))


def _mangled(header: str, tools: DeclaredTools) -> str | None:
    """The declared tool behind separators that were lost, doubled or swapped."""
    without_prefix = _PREFIX.sub("", header, count=1)
    candidates: set[str] = set()
    for text in (header, without_prefix):
        candidates |= {text, _SUFFIX.sub("", text)}
        # Where the name ends and the index begins is lost: every split is possible.
        digits = len(text) - len(text.rstrip("0123456789"))
        candidates |= {text[:-taken].rstrip("._-:()") for taken in range(1, digits + 1)}
    names = {name.strip("()") for name in candidates}
    found = {name if name in tools else tools.alike(name) for name in names} - {None}
    return found.pop() if len(found) == 1 else None
