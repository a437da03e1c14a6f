"""Each native Responses fixture gives its expected result, at every cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.bridge.reader_writer_pairs import stage_for, tools_of
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from fixtures.regenerate import (
    NOW,
    answer_of,
    expectation,
    expected,
    is_clean,
    native_fixtures,
    request,
)
from tests.bridge.native_grammar import check_native


@pytest.mark.parametrize("folder", native_fixtures(), ids=lambda folder: folder.name)
def test_the_result_is_the_expected_one_however_the_bytes_are_cut(folder: Path) -> None:
    answer, result = answer_of(folder), expected(folder)
    name, content = expectation(folder, result)
    assert content == (folder / name).read_bytes()
    if result.startswith(b"{"):
        return
    check_native(result)
    assert b"<|" not in result or is_clean(folder)
    tools = tools_of(request(folder), "responses")
    for size in (1, 13, 500):
        pipeline = RepairPipeline(stage_for(tools, RepairOptions(), Evidence(), NOW), Evidence())
        pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
        assert b"".join([*map(pipeline.feed, pieces), pipeline.close()]) == result
        assert not pipeline.broken
