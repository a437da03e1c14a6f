"""The rooms of the addon import one way, and nothing that mitmproxy does not bring.

mitmproxy's official binaries carry their own Python and can import nothing else.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ADDON = Path(__file__).parents[1] / "addon" / "dragoman"
ROOMS = [
    "notes",
    "wire",
    "repair",
    "reply",
    "chat",
    "responses",
    "messages",
    "bridge",
    "inspect",
    "stored",
    "proxy",
    "__main__.py",
]
"""From the bottom up; a module may import from its own room and those below."""
APIS = {"chat", "responses", "messages"}
WORDS_OF_REPLIES = re.compile(
    r"choices|finish_reason"
    r"|sequence_number|(output|content|summary|annotation)_index"
    r"|response\.(created|in_progress|completed|incomplete|failed|output_\w+|content_part)[\w.]*"
    r"|message_(start|delta|stop)|content_block\w*|stop_reason|partial_json"
    r"|(input_json|text|thinking|signature)_delta"
)
"""Names of fields and events that no request has."""
KNOW_WORDS_OF_REPLIES = {
    "wire/chat_end.py": "whether bytes have the end of a chat stream",
    "wire/errors.py": "an error in place of a reply of any API, or within it",
    "wire/reply_bounds.py": "lists that may be long, in replies of all APIs",
    "wire/usage.py": "where replies of all APIs have their usage",
    "proxy/command/demo.py": "a client: prints what it receives",
    "proxy/options.py": "the name of an option",
}
"""Modules outside the rooms of the APIs, and what they need them for."""
KIMI_ROOMS = [
    *(ADDON / "repair" / "formats").glob("kimi*"),
    ADDON / "proxy" / "command" / "demo.py",  # a recording
]
KIMI_MARKER = re.compile(r"tool_calls?_(?:section|argument|begin)")
"""But for the end of a call, which is LFM2's as well."""
COME_WITH_MITMPROXY = {"mitmproxy", "brotli", "zstandard"}
MODULES = sorted(ADDON.rglob("*.py"))


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """All that a module is made of."""
    return [*ast.walk(ast.parse(path.read_bytes()))]


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules a file imports, relative ones made absolute, split at the dots."""
    package = ("dragoman", *path.relative_to(ADDON).parts[:-1])
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*base, *(node.module or "").split("."))
            yield from ((*module, alias.name) for alias in node.names)


def quoted(path: Path) -> Iterator[str]:
    """The strings of a module, and what stands in double quotes in its bytes and expressions."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            yield from (text, *re.findall(r'"([\w.]+)"', text))


def room(parts: tuple[str, ...]) -> int:
    return ROOMS.index(parts[0]) if parts and parts[0] in ROOMS else 0


def test_imports_run_one_way() -> None:
    for path in MODULES:
        own = room(path.relative_to(ADDON).parts)
        for imported in imports(path):
            if imported[0] == "dragoman":
                assert room(imported[1:]) <= own, (path, imported)
            elif imported[0] in COME_WITH_MITMPROXY:
                assert ROOMS[own] == "proxy", (path, imported)
            else:
                assert imported[0] in sys.stdlib_module_names, (path, imported)


def test_no_api_knows_another() -> None:
    for path in MODULES:
        own = path.relative_to(ADDON).parts[0]
        if own in APIS:
            known = {parts[1] for parts in imports(path) if parts[0] == "dragoman"}
            assert not known & APIS - {own}, path


def test_only_the_room_of_an_api_looks_into_its_chunks_and_events_or_makes_one() -> None:
    knowing = set()
    for path in MODULES:
        if path.relative_to(ADDON).parts[0] not in APIS:
            found = (WORDS_OF_REPLIES.fullmatch(text) for text in quoted(path))
            knowing |= {path.relative_to(ADDON).as_posix()} if any(found) else set()
    assert knowing == KNOW_WORDS_OF_REPLIES.keys()


SAID = {
    *("note", "notes", "what", "detail", "why", "reason", "status", "finish", "outcome", "ending"),
    *("verdict", "verdicts", "refusal", "phrase", "told"),
}
"""Names of what was decided: in other words than a person is told."""
TAKES_APART = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "find", "index"),
    *("partition", "rpartition", "split", "rsplit"),
}


def test_nothing_is_decided_by_the_words_of_a_note() -> None:
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in TAKES_APART:
                name = getattr(node.value, "id", getattr(node.value, "attr", ""))
                assert name.strip("_") not in SAID, (path, node.lineno)
            elif isinstance(node, ast.Compare):
                compared = [each for side in (node.left, *node.comparators) for each in texts(side)]
                assert not [text for text in compared if " " in text.strip()], (path, node.lineno)


def texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_only_its_own_format_knows_a_marker_of_kimi() -> None:
    others = [p for p in MODULES if not any(p.is_relative_to(room) for room in KIMI_ROOMS)]
    assert others
    assert [path for path in others if KIMI_MARKER.search(path.read_text())] == []


def test_no_comprehension_calls_super() -> None:
    """Python 3.11 makes a function of it, in which `super()` has no object."""
    comprehensions = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, comprehensions):
                names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
                assert "super" not in names, (path, node.lineno)
