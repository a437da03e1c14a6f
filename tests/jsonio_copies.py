"""The module that makes JSON, as it is with orjson and as it is without it.

What runs in `pytest` and in the benchmark finds no orjson: `tests/alone` is in front.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from dragoman.wire import json_codec

ALONE = str(Path(__file__).with_name("alone"))


def installed_orjson() -> ModuleType:
    """The one that is hidden."""
    path = [folder for folder in sys.path if folder != ALONE]
    with mock.patch.object(sys, "path", path), mock.patch.dict(sys.modules):
        return import_module("orjson")


def jsonio_that_finds(orjson: Any) -> Any:
    """A copy of the module; None is an orjson that is not installed."""
    spec = spec_from_file_location("dragoman.another_jsonio", json_codec.__file__)
    assert spec and spec.loader
    module = module_from_spec(spec)
    with mock.patch.dict(sys.modules, orjson=orjson):
        spec.loader.exec_module(module)
    return module
