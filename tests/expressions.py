"""The regular expressions of the addon, found by walking its modules, and texts that are hard for
one of them, made from its own parse tree."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
import string
import types
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import dragoman
from dragoman.repair.formats.formats_by_family import AUTO

ADDON = Path(dragoman.__file__).parent
USES = frozenset({"match", "fullmatch", "search", "finditer", "findall", "sub", "split", "scanner"})
_SAME = {"findall": "finditer", "sub": "finditer", "split": "finditer", "scanner": "match"}
"""Uses that try the same."""
_WITHIN = {"match": {"search", "finditer"}, "search": {"finditer"}}
"""A search begins with what a match tries; to find all begins with a search."""


# Finding them


@dataclass
class Found:
    """An expression, where it was found first, and the methods by which it is used."""

    pattern: re.Pattern[Any]
    name: str
    """Its module, and its place there: `repair.quotation:_CLOSING_TAGS`."""
    uses: set[str] = field(default_factory=set)


def expressions() -> list[Found]:
    """All expressions that the addon holds once its modules are imported, and those that it writes
    into a call of `re`."""
    found: dict[tuple[Any, int], Found] = {}

    def add(pattern: re.Pattern[Any], name: str, uses: Collection[str]) -> None:
        uses = {_SAME.get(use, use) for use in uses}
        found.setdefault((pattern.pattern, pattern.flags), Found(pattern, name)).uses.update(uses)

    used = _uses_by_name()
    AUTO.compile()
    for pattern, path, use in _held():
        last = re.split(r"[.:]", path)[-1].partition("[")[0]
        add(pattern, path, {use} if use else used[last] or USES)
    for module, use, pattern in _written():
        add(pattern, f"{module.removesuffix('.py').replace('/', '.')}: re.{use}", {use})
    for each in found.values():
        each.uses -= {use for use, more in _WITHIN.items() if each.uses & more}
    return sorted(found.values(), key=lambda each: each.name)


def module_names() -> list[str]:
    names = [each.name for each in pkgutil.walk_packages([str(ADDON)], "dragoman.")]
    return [name.removeprefix("dragoman.") for name in names if not name.endswith("__main__")]


def _modules() -> list[types.ModuleType]:
    return [importlib.import_module(f"dragoman.{name}") for name in module_names()]


def _held() -> Iterator[tuple[re.Pattern[Any], str, str]]:
    """Each expression that can be reached from a module, the path to it, and the method, if only
    that is held."""
    seen: set[int] = set()
    kept: list[object] = []  # an id is that of an object only as long as the object lives
    waiting = [
        (value, f"{module.__name__.removeprefix('dragoman.')}:{name}")
        for module in _modules()
        for name, value in vars(module).items()
        if not name.startswith("__")
    ]
    while waiting:
        value, path = waiting.pop()
        own = getattr(value, "__self__", None)
        if isinstance(value, types.BuiltinMethodType) and isinstance(own, re.Pattern):
            yield own, path, value.__name__
        elif isinstance(value, re.Pattern):
            yield value, path, ""
        elif id(value) not in seen:
            seen.add(id(value))
            kept.append(value)
            waiting += [(inner, path + step) for inner, step in _inside(value)]


def _inside(value: Any) -> Iterator[tuple[object, str]]:
    """What a value holds, and the step to it."""
    if isinstance(value, dict):
        for key, inner in list(value.items()):
            yield key, "[key]"
            yield inner, f"[{str(key)[:20]!r}]"
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((inner, f"[{number}]") for number, inner in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((inner, "[partial]") for inner in (value.func, value.args, value.keywords))
    elif isinstance(value, types.MethodType):
        yield from ((value.__self__, ""), (value.__func__, ""))
    elif isinstance(value, types.FunctionType):
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        for name, cell in cells.items():
            yield cell.cell_contents, f".{name}"
        defaults = value.__defaults__ or ()
        parameters = value.__code__.co_varnames[: value.__code__.co_argcount]
        for name, inner in zip(parameters[::-1], defaults[::-1], strict=False):
            yield inner, f".{name}"
        yield value.__kwdefaults__, ""
        yield getattr(value, "__wrapped__", None), ""
    elif isinstance(value, (property, functools.cached_property, staticmethod, classmethod)):
        for name in ("fget", "func", "__func__"):
            yield getattr(value, name, None), ""
    elif hasattr(value, "__wrapped__"):
        yield value.__wrapped__, ""
    elif isinstance(value, type):
        if value.__module__.startswith("dragoman"):
            yield from ((inner, f".{name}") for name, inner in vars(value).items())
    elif type(value).__module__.startswith("dragoman"):
        names = [*getattr(value, "__dict__", ())]
        names += [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
        yield from ((getattr(value, name, None), f".{name}") for name in names)


@functools.cache
def _trees() -> list[tuple[str, ast.Module]]:
    paths = sorted(ADDON.rglob("*.py"))
    return [(str(path.relative_to(ADDON)), ast.parse(path.read_bytes())) for path in paths]


def _uses_by_name() -> defaultdict[str, set[str]]:
    """The methods that are called anywhere on what has that name: ``_X.match``, ``x._x.match``."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in USES:
                owner = node.value
                name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
                used[name].add(node.attr)
    return used


def calls_of_re() -> Iterator[tuple[str, ast.Call, str]]:
    """The calls of functions of `re` that compile what they are given: module, call, function."""
    for module, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr in USES:
                    yield module, node, node.func.attr


def _written() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    for module, call, use in calls_of_re():
        if isinstance(call.args[0], ast.Constant):
            yield module, use, re.compile(call.args[0].value)


def used(pattern: re.Pattern[Any], use: str, text: Any) -> None:
    """Use it as the addon may."""
    if _SAME.get(use, use) == "finditer":
        deque(pattern.finditer(text), maxlen=0)
    else:
        getattr(pattern, use)(text)


# Texts for one

_CANDIDATES = string.printable + "\0é｜▁　１"
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_MANY = 4
"""Times from which on a part counts as repeated."""


@dataclass(frozen=True)
class _Way:
    """How a text for a part is made: this character wherever it may stand, that one of several
    alternatives, and so often what may be left out."""

    character: str
    branch: int
    times: int


class _Texts:
    """Makes texts for one expression."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._bytes = isinstance(pattern.pattern, bytes)
        flags = pattern.flags & (re.ASCII if self._bytes else -1)
        self._ascii = bool(pattern.flags & re.ASCII) or self._bytes
        self._dotall = bool(pattern.flags & re.DOTALL)
        self._ignore = bool(pattern.flags & re.IGNORECASE)
        source = pattern.pattern.decode("latin-1") if self._bytes else pattern.pattern
        self.tree = list(_parser.parse(source, flags or pattern.flags))
        self._sets: list[tuple[Any, Any]] = []
        self._repeating: set[int] = set()
        self.branches = 1
        """The most alternatives that one part has, up to three."""
        self._collect(self.tree)
        self._literals = {argument for code, argument in self._sets if code is op.LITERAL}
        kinds = self._kinds(_CANDIDATES + "".join(map(chr, self._literals)))
        self.characters = list(kinds.values())
        """One character of each kind that the expression distinguishes."""
        self.ends = ["", *self._kinds("!\n\0").values()]
        """What may follow the repeated part."""
        self._sampled: dict[tuple[Any, int, _Way], str] = {}

    def _collect(self, tree: Sequence[tuple[Any, Any]]) -> bool:
        """Whether a part of it may be repeated."""
        found = False
        for code, argument in tree:
            if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
                self._sets.append((code, argument))
            if code is op.BRANCH:
                self.branches = max(self.branches, min(3, len(argument[1])))
            inner = [self._collect(part) for part in _parts(code, argument)]
            if any(inner) or (code in _REPEATS and argument[1] >= _MANY):
                self._repeating.add(id(argument))
                found = True
        return found

    def _kinds(self, candidates: str) -> dict[tuple[bool, ...], str]:
        """The first character of each kind."""
        literals = set(map(chr, self._literals))
        sets = [each for each in self._sets if each[0] is not op.LITERAL]
        sets = list({(code, repr(argument)): (code, argument) for code, argument in sets}.values())
        kinds: dict[tuple[bool, ...], str] = {}
        for character in dict.fromkeys(candidates):
            if not self._bytes or ord(character) < 256:
                kind = tuple(self.allows(*each, character) for each in sets)
                kinds.setdefault((*kind, character in literals), character)
        return kinds

    def allows(self, code: Any, argument: Any, character: str) -> bool:
        """Whether this part, which is one character, may be that one."""
        if code is op.ANY:
            return self._dotall or character != "\n"
        if code is op.NOT_LITERAL:
            return character != chr(argument)
        if code is op.LITERAL:
            same = character == chr(argument)
            return same or (self._ignore and character.lower() == chr(argument).lower())
        forms = {character.lower(), character.upper()} if self._ignore else {character}
        members = [each for each in argument if each[0] is not op.NEGATE]
        found = any(self._is_in(*each, form) for each in members for form in forms)
        return found is (len(members) == len(argument))

    def _is_in(self, code: Any, argument: Any, character: str) -> bool:
        if code is op.LITERAL:
            return character == chr(argument)
        if code is op.RANGE:
            return bool(argument[0] <= ord(character) <= argument[1])
        flag = re.ASCII if self._ascii else 0
        return re.match(_CATEGORIES[argument], character, flag) is not None

    def sample(self, tree: Sequence[tuple[Any, Any]], way: _Way) -> str:
        """A text for this part; what only looks ahead or back is left out."""
        return "".join([self._part(code, argument, way) for code, argument in tree])

    def _part(self, code: Any, argument: Any, way: _Way) -> str:
        if code is op.LITERAL:
            return chr(argument)
        key = (code, id(argument), way)
        if key not in self._sampled:
            self._sampled[key] = self._sample(code, argument, way)
        return self._sampled[key]

    def _sample(self, code: Any, argument: Any, way: _Way) -> str:
        if code in (op.NOT_LITERAL, op.ANY, op.IN):
            order = (way.character, *self.characters)
            return next((each for each in order if self.allows(code, argument, each)), "")
        if code in _REPEATS:
            low, high, inner = argument
            return self.sample(inner, way) * max(low, min(way.times, high))
        if code in (op.ASSERT, op.ASSERT_NOT):
            return ""
        parts = list(_parts(code, argument))
        return self.sample(parts[way.branch % len(parts)], way) if parts else ""

    def repeated(
        self, tree: Sequence[tuple[Any, Any]], way: _Way, before: str = ""
    ) -> Iterator[tuple[str, str]]:
        """Each part that may be repeated, as a text, after a text for what precedes it."""
        for at, (code, argument) in enumerate(tree):
            if id(argument) not in self._repeating:
                continue
            begin = before + self.sample(tree[:at], way)
            if code in _REPEATS and argument[1] >= _MANY:
                yield begin, self.sample(argument[2], way)
            for inner in _parts(code, argument):
                yield from self.repeated(inner, way, begin)


def _parts(code: Any, argument: Any) -> Iterator[Sequence[tuple[Any, Any]]]:
    """The parts of a part of a parse tree."""
    if code in _REPEATS:
        yield argument[2]
    elif code is op.SUBPATTERN:
        yield argument[3]
    elif code is op.ATOMIC_GROUP:
        yield argument
    elif code is op.BRANCH:
        yield from argument[1]
    elif code in (op.ASSERT, op.ASSERT_NOT):
        yield argument[1]
    elif code is op.GROUPREF_EXISTS:
        yield from (each for each in argument[1:] if each is not None)


@dataclass(frozen=True)
class Text:
    """A part of the expression, repeated after what precedes it, and then broken off."""

    begin: str
    body: str
    end: str

    def sized(self, size: int, like: str | bytes) -> Any:
        """It, with some `size` characters of repeated parts, in the type of the expression."""
        text = self.begin + self.body * (size // len(self.body) + 1) + self.end
        return text.encode("latin-1", "replace") if isinstance(like, bytes) else text


def hard_texts(pattern: re.Pattern[Any]) -> list[Text]:
    texts = _Texts(pattern)
    found: dict[Text, None] = {}
    parts = {
        part: None
        for character in texts.characters
        for branch in range(texts.branches)
        for times in (0, 1)
        for part in texts.repeated(texts.tree, _Way(character, branch, times))
    }
    for before, unit in parts:
        for begin, body in ((before, unit), ("", unit), ("", before + unit)):
            if body:
                found |= {Text(begin, body, end): None for end in texts.ends}
    return list(found)
