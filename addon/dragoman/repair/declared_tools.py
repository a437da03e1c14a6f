"""The tools that a request declares, and which of them a call means: nobody else answers that.

| what is known of a call                          | what it means               | asked by     |
|--------------------------------------------------|-----------------------------|--------------|
| ``files.read``, ``read_3``, ``functions(read):2``| `read`, if that is declared | `find`       |
| the same in a header of Kimi's, or an earlier id | `read`                      | `of_header`  |
| ``read<|channel|>…``, or ``functions.read:0``    | `read`                      | `of_native`  |
| ``readpath``                                     | `read` and its key `path`   | `with_key`   |
| nothing but its arguments                        | the tool that accepts them  | `meant_by`   |
| ``mcp.files/Read``                               | `read` of ``mcp__files``    | `ToolLookup` |

A spelling counts only if it leads to exactly one tool: a best guess could silently run the wrong
one, so there is none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from typing import Generic, Literal, Protocol, TypeVar

from ..wire.chat_calls import ID_PREFIX, read_delta
from ..wire.json_codec import Json, NotJson, array, loads, objects, string
from .events import NOT_JSON
from .schema import OutOfSteps, Steps, accepts, flattened, properties, required

_PREFIX = re.compile(r"\Afunctions?[._:(]*", re.IGNORECASE)
_SUFFIX = re.compile(r"(?<![):\s._-])(?:[):\s._-]++|(?<!\d))\d++(?:\.\d+)?\Z")
_MARKUP = re.compile(r"<[^<>]*(?:>|\Z)")
_CALL_ID = re.compile(r"(?:functions?[.:])?(?P<name>[^\s:]+)(?::\d{1,4})?")
_LONGEST = 256
"""Characters of a name that is spelled otherwise; no host takes a longer one."""
_NO_ARGUMENTS = {"type": "object", "additionalProperties": False}
"""A function without ``parameters`` takes none (OpenAI's API reference)."""


_ANY_ARGUMENTS: dict[str, object] = {"type": "object"}


class DeclaredTools:
    """The tools and earlier calls of a request."""

    def __init__(
        self,
        schemas: Mapping[str, object],
        *,
        aliases: Mapping[str, str] | None = None,
        model: str = "",
        forbidden: bool = False,
        wants_json: bool = False,
        called: dict[str, str] | None = None,
        only_named: AbstractSet[str] = frozenset(),
    ) -> None:
        """`schemas` are those of the declared tools, none if they are not known; `only_named` are
        the tools of which nothing else is known, so that arguments never mean one; `aliases` are
        further names, each with the tool's; `model` is the one that was requested; `forbidden`: no
        call is wanted (``tool_choice``); `wants_json`: the answer is to be JSON; `called` gives the
        tool of each call id in the history, "" where it is not known."""
        self._schemas = {**schemas, **dict.fromkeys(only_named, _ANY_ARGUMENTS)}
        self._only_named = only_named
        known = {alias: name for alias, name in (aliases or {}).items() if name in self._schemas}
        self._meant = known | {name: name for name in self._schemas}
        """The declared tool by each of its names."""
        self.model = model
        self.forbidden = forbidden
        self.wants_json = wants_json
        self.called = {} if called is None else called
        self._steps = Steps()
        self._flat: dict[str, object] = {}
        """See `schema_of`."""

    @classmethod
    def of_request(
        cls, request: object, *, only_named: AbstractSet[str] = frozenset()
    ) -> DeclaredTools:
        """From a chat completions request body; anything unreadable declares nothing."""
        body: Json = request if isinstance(request, dict) else {}
        schemas: dict[str, object] = {}
        functions = [tool.get("function") for tool in objects(body.get("tools"))]
        # Older clients declare functions without tools around them.
        for function in objects([*functions, *array(body.get("functions"))]):
            if name := string(function.get("name")):
                schemas[name] = function.get("parameters", _NO_ARGUMENTS)
        return cls(
            schemas,
            model=string(body.get("model")),
            forbidden="none" in (body.get("tool_choice"), body.get("function_call")),
            wants_json=is_json_form(body.get("response_format")),
            called=tools_by_id(_calls(body.get("messages"))),
            only_named=only_named - schemas.keys(),
        )

    def with_aliases(self, aliases: Mapping[str, str], called: Mapping[str, str]) -> DeclaredTools:
        """These tools, which may be called by further names, and by the ids of further earlier
        calls."""
        named = {alias: self._meant.get(name, name) for alias, name in aliases.items()}
        return DeclaredTools(
            self._schemas,
            aliases={**named, **self._meant},
            model=self.model,
            forbidden=self.forbidden,
            wants_json=self.wants_json,
            called={**called, **self.called},
            only_named=self._only_named,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._meant

    def __bool__(self) -> bool:
        return bool(self._schemas)

    @property
    def names(self) -> AbstractSet[str]:
        return self._meant.keys()

    # By its name

    def find(self, name: str) -> str | None:
        """The declared tool of this name, or the one with the longest name that it ends in after a
        dot, or the one that it is `_mangled` from."""
        if name in self._meant:
            return name
        if len(name) > _LONGEST:
            return None
        return self._longest_end(name) or self._mangled(name)

    def of_header(self, header: str, name: str) -> tuple[str, str] | None:
        """The tool that the header of a call means, and how, "" if by this `name` that was read in
        it; "" for none.  A header that is another name means no tool."""
        if header in self._meant:
            return header, "plain name"
        if called := self.called.get(header):
            return called, "id of an earlier call"
        if name in self._meant:
            return name, ""
        if tool := self._longest_end(name):
            return tool, "dotted name"
        return (tool, "mangled header") if (tool := self._mangled(header)) else None

    def of_native(self, name: str) -> str | None:
        """The tool that a host means by the name of a call of its own: one with markup around it,
        one that comes twice (``bashbash``), or the id by which Kimi knows the call
        (``functions.bash:0``).  None if nothing is wrong with the name."""
        if name in self or self.may_begin(name):
            return None
        half = name[: len(name) // 2]
        if half in self and name == half * 2:
            return half
        if "<" in name:
            words = (word for part in _MARKUP.split(name) if (word := part.strip()))
            return self.find(next(words, ""))
        found = _CALL_ID.fullmatch(name.strip())
        return found["name"] if found and found["name"] in self else None

    def may_be_cut(self, name: str) -> bool:
        """Whether the next delta may have the rest of this name of a host's own call."""
        bare = name.removeprefix(ID_PREFIX)
        if not name or name in self or bare in self:
            return False
        return ID_PREFIX.startswith(name) or self.may_begin(bare)

    def may_begin(self, text: str) -> bool:
        """Whether the name of a tool begins with `text`."""
        # Of what is sorted, the first that is not less begins with it, if any does.
        place = bisect_left(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)

    def with_key(self, glued: str) -> tuple[str, str] | None:
        """The one tool and argument of it whose names `glued` consists of."""
        pairs = [(name, glued.removeprefix(name)) for name in self.names if glued.startswith(name)]
        found = [(name, key) for name, key in pairs if key in properties(self.schema_of(name))]
        return found[0] if len(found) == 1 else None

    def _longest_end(self, dotted: str) -> str | None:
        """The longest declared name that `dotted` ends in, at a dot."""
        while dotted not in self._meant:
            if "." not in dotted:
                return None
            dotted = dotted.partition(".")[2]
        return dotted

    def _mangled(self, name: str) -> str | None:
        """The one declared tool that differs only in separators that were lost, doubled or swapped,
        in a prefix, or in an index; if there is none, the one that differs in case as well, as
        models write what they know from another agent."""
        candidates: set[str] = set()
        for text in (name, _PREFIX.sub("", name, count=1)):
            candidates |= {text, _SUFFIX.sub("", text)}
            # Where the name ends and the index begins is lost: every split is possible.
            digits = len(text) - len(text.rstrip("0123456789"))
            candidates |= {text[:-size].rstrip("._-:()") for size in range(1, digits + 1)}
        candidates = {each.strip("()") for each in candidates}
        found = {each for each in candidates if each in self}
        for shapes, shape in ((self._by_shape, _shape), (self._by_letters, _letters)):
            alike = (shapes.get(shape(each), []) for each in candidates if each not in self)
            found |= {names[0] for names in alike if len(names) == 1}
            if found:
                break
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._schemas)

    @cached_property
    def _by_shape(self) -> dict[str, list[str]]:
        """The tools that differ only in ``-`` and ``_``."""
        return _grouped((_shape(name), name) for name in self._schemas)

    @cached_property
    def _by_letters(self) -> dict[str, list[str]]:
        """The tools that differ in case, too."""
        return _grouped((_letters(name), name) for name in self._schemas)

    # By its arguments

    def schema_of(self, name: str) -> object:
        """The schema of the arguments of the tool that this name means, as one object
        (`flattened`); None if there is no such tool."""
        found = self.find(name)
        if found is None:
            return None
        if found not in self._flat:
            self._flat[found] = flattened(self._schemas[self._meant[found]])
        return self._flat[found]

    def lacks(self, name: str, value: object) -> Literal["", "some", "all"]:
        """Whether an argument is not there that this tool requires, or none that it declares is;
        `value`: that of the arguments."""
        name = self._meant.get(name, name)
        needs = self._required.get(name)
        if not needs or not isinstance(value, dict) or needs <= value.keys():
            return ""
        return "some" if value.keys() & properties(self._schemas[name]).keys() else "all"

    def meant_by(self, arguments: str, *, declared: bool = False) -> str | None:
        """The one tool whose schema accepts the whole argument object; of several whose
        schemas are open, or if `declared`, the one that declares all of its keys, of which
        there must be one.  None as well if it would take too long to find out."""
        try:
            self._steps.take()
            value = loads(arguments or "{}")
            if not isinstance(value, dict) or (declared and not value):
                return None
            accepting = [
                name
                for name, needs in self._required.items()
                if needs <= value.keys() and accepts(self._schemas[name], value, self._steps)
            ]
        except (NotJson, OutOfSteps):
            return None
        if declared or len(accepting) > 1:
            keys = value.keys()
            accepting = [n for n in accepting if keys <= properties(self._schemas[n]).keys()]
        return accepting[0] if len(accepting) == 1 else None

    @cached_property
    def _required(self) -> dict[str, frozenset[str]]:
        """Most tools accept arguments not, as one that they require is not there."""
        schemas = self._schemas.items()
        return {n: frozenset(required(each)) for n, each in schemas if n not in self._only_named}

    def refuses(self, name: str, arguments: str) -> bool:
        """Whether arguments are invalid JSON, or the schema of this tool refuses them."""
        try:
            value = loads(arguments or "{}")
        except NotJson:
            return True
        return self.refuses_value(name, value)

    def refuses_value(self, name: str, value: object) -> bool:
        """As `refuses`, of arguments that were read."""
        if value is NOT_JSON:
            return True
        schema = self._schemas.get(self._meant.get(name, ""), {})
        try:
            return not accepts(schema, value, Steps())
        except OutOfSteps:
            return False


def is_json_form(form: object) -> bool:
    """Whether this form of an answer, as a request has it, is JSON."""
    return isinstance(form, dict) and form.get("type") in ("json_object", "json_schema")


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str | None: ...


_Tool = TypeVar("_Tool", bound=_Named)
_JOINTS = re.compile(r"[\W_]+")
_COUNTER = re.compile(r":\d+$")
"""Kimi's models count their calls in the name, too: ``functions.bash:0``."""
_PREFIXES = ("functions", "function", "tools")
"""These may precede a name like a namespace."""
_WORDS = 16
"""Words of a namespace that may be left out."""


class ToolLookup(Generic[_Tool]):
    """The tools of a client that knows namespaces.

    A model is sent one name for each, and may answer without the namespace or with another joint
    (``.``, ``/``, ``_``), with ``functions.`` before it, in another case, with ``-`` for ``_``.
    """

    def __init__(self, tools: Mapping[str, _Tool]) -> None:
        """`tools` by the name they have upstream."""
        self.tools = tools

    def find(self, name: str) -> _Tool | None:
        """The tool that was sent under this name, else the one tool that the name can mean."""
        if (upstream := name if name in self.tools else self.aliases.get(name)) is not None:
            return self.tools[upstream]
        spelled = _joined(_COUNTER.sub("", name))
        first, _, rest = spelled.partition("_")
        for spelling in (spelled, rest if first in _PREFIXES else ""):
            found = self._spellings.get(spelling)
            if spelling and found:
                return self.tools[found[0]] if len(found) == 1 else None
        return None

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The names upstream by other names of the tools: the client's, and with the namespace
        before a dot, as hosts join them."""
        names = [(tool.name, upstream) for upstream, tool in self.tools.items()]
        for upstream, tool in self.tools.items():
            names += [(f"{tool.namespace}.{tool.name}", upstream)] if tool.namespace else []
        return {name: found[0] for name, found in _grouped(names).items() if len(found) == 1}

    @cached_property
    def _spellings(self) -> dict[str, list[str]]:
        """The names upstream by the words that may mean them: those of a tool's name as it was
        sent, alone, and after its namespace or the end of it."""
        return _grouped(
            (spelling, upstream)
            for upstream, tool in self.tools.items()
            for spelling in {_joined(upstream), *_ends(_joined(tool.namespace), _joined(tool.name))}
        )


@lru_cache(256)  # many tools are in one namespace
def _joined(name: str | None) -> str:
    """The words of a name, in small letters."""
    return _JOINTS.sub("_", (name or "").lower()).strip("_")


def _ends(namespace: str, name: str) -> Iterator[str]:
    """A name alone, and after its namespace or the end of it."""
    yield name
    words = namespace.split("_", _WORDS) if namespace else []
    for start in range(len(words)):
        yield "_".join([*words[start:], name]).strip("_")


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The second ones by the first."""
    groups: dict[str, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def _shape(name: str) -> str:
    return name.replace("-", "_")


def _letters(name: str) -> str:
    return _shape(name).lower()


def tools_by_id(calls: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The tool of each call in a history, by its id, of ids and names; "" for ids that two tools
    share."""
    called: dict[str, str] = {}
    for call_id, name in calls:
        if call_id:
            called[call_id] = name if called.setdefault(call_id, name) == name else ""
    return called


def _calls(messages: object) -> Iterator[tuple[str, str]]:
    for message in objects(messages):
        for call in map(read_delta, objects(message.get("tool_calls"))):
            if call is not None:
                yield call.id, call.name
