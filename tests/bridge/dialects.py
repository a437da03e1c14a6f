"""Tests that every dialect of the Responses events passes."""

from __future__ import annotations

import pytest

from dragoman.responses.dialects import DIALECTS

EVERY_DIALECT = pytest.mark.parametrize(
    "dialect", DIALECTS.values(), ids=lambda dialect: dialect.name
)
