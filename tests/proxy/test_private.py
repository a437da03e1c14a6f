"""What is used of mitmproxy's internals is named in one place, and checked there."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator

import pytest

from dragoman.proxy.mitm.private import LAYERS, require
from tests.live.mitmdump import ROOT

PROXY = ROOT / "addon" / "dragoman" / "proxy"
FILES = sorted((PROXY / "mitm").glob("*.py"))
ALL = [(path, *names) for path, names in LAYERS.items()]


def test_all_of_it_is_there() -> None:
    require(LAYERS)


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, own, _ in ALL for name in own.split()]
)
def test_what_a_class_does_not_have_any_more_is_missed(
    monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    owner = pkgutil.resolve_name(path)
    for base in [each for each in getattr(owner, "__mro__", [owner]) if name in vars(each)]:
        if base is not object:
            monkeypatch.delattr(base, name)
    with pytest.raises(ImportError, match=f"mitmproxy has no {path.partition(':')[2]}.{name}$"):
        require({path: (name, "")})


@pytest.mark.parametrize("path", [path for path, *_ in ALL])
def test_an_attribute_that_nothing_names_is_missed(path: str) -> None:
    with pytest.raises(ImportError, match=r" [^ ]+\.no_such_name$"):
        require({path: ("", "no_such_name")})


@pytest.mark.parametrize("path", ["mitmproxy.no_such_module:X", "mitmproxy.http:NoSuchClass"])
def test_a_class_that_is_not_there_is_missed(path: str) -> None:
    with pytest.raises(ImportError, match=f"{path}$"):
        require({path: ("", "")})


def used() -> Iterator[str]:
    """The private names that the files use, of modules and of objects."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and "._" in (node.module or ""):
                yield from (f"{node.module}:{each.name}" for each in node.names)
            elif isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                yield node.attr


def own() -> Iterator[str]:
    """The names of their own methods, and of what they assign to `self`."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def test_every_private_name_is_in_the_table() -> None:
    known = {path for path, *_ in ALL}
    known |= {name for _, *both in ALL for names in both for name in names.split()}
    assert sorted(set(used()) - set(own()) - known) == []
