"""Every recorded stream gives its expected result, however it is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.repair.formats.formats_by_family import AUTO
from dragoman.wire.sse import FrameSplitter
from fixtures import regenerate
from tests.repair.streams import Read, places_to_cut, read, repair, sse

FIXTURES = regenerate.chat_fixtures()
STREAMS = [folder for folder in FIXTURES if (folder / "upstream.sse").exists()]
# They hold what is no chunk, or a marker of which only a word before `<|sep|>` is left: that
# is taken out only while the word has not been sent.
NOT_CUT_AGAIN = ("clean_odd_framing", "clean_error_frame", "k3_in_reasoning")
CUTTABLE = [folder for folder in STREAMS if folder.name not in NOT_CUT_AGAIN]
# A call in them is damaged, or cut off: that is text.
DAMAGED = (
    "dsml_ends_inside_call",
    "k3_cut_off",
    "k3_json_arguments",
    "kimi_broken_arguments",
    "kimi_cut_off",
    "kimi_ends_inside_call",
)
TEXT_FIELDS = ("reasoning_content", "reasoning", "content")

by_name = pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
every_stream = pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
every_cuttable = pytest.mark.parametrize("folder", CUTTABLE, ids=lambda folder: folder.name)


_answer = regenerate.answer_of


@by_name
def test_result_is_the_expected_one(folder: Path) -> None:
    name, result = regenerate.expectation(folder, regenerate.expected(folder))
    assert result == (folder / name).read_bytes(), (
        "if this change is wanted, run `make fixtures` and look at the diff"
    )


@by_name
def test_clean_replies_are_untouched_byte_for_byte_and_others_are_not(folder: Path) -> None:
    untouched = regenerate.expected(folder) == _answer(folder)
    assert untouched == regenerate.is_clean(folder)


@by_name
def test_no_marker_is_left_but_those_quoted_in_arguments(folder: Path) -> None:
    if folder.name.startswith("clean_") or folder.name in DAMAGED:
        return  # untouched, see above; some do not even hold JSON
    result = regenerate.expected(folder)
    if folder not in STREAMS:
        messages = [choice["message"] for choice in json.loads(result)["choices"]]
        texts = [str(message.get(field)) for message in messages for field in TEXT_FIELDS]
        calls = [call["function"] for message in messages for call in message["tool_calls"]]
    else:
        choices = [read(result, index) for index in (0, 1)]
        texts = [choice.text for choice in choices]
        calls = [call for choice in choices for call in choice.calls]
    if folder.name != "kimi_quoted_markers":
        texts += [call[part] for call in calls for part in ("name", "arguments")]
    formats = AUTO.looked_for(str(regenerate.request(folder)["model"]))
    assert not any(list(formats.find_all(text)) for text in texts)


@every_stream
def test_frames_do_not_depend_on_where_bytes_are_cut(folder: Path) -> None:
    answer = _answer(folder)
    whole = FrameSplitter()
    frames = whole.feed(answer) + whole.close()
    assert b"".join(frame.raw for frame in frames) == answer
    for offset in range(0, len(answer), 1 + len(answer) // 250):
        splitter = FrameSplitter()
        cut = splitter.feed(answer[:offset]) + splitter.feed(answer[offset:]) + splitter.close()
        assert [f.data for f in cut if f.data] == [f.data for f in frames if f.data]
        assert b"".join(frame.raw for frame in cut) == answer


def _chunks(answer: bytes) -> list[Any]:
    splitter = FrameSplitter()
    frames = splitter.feed(answer) + splitter.close()
    return [json.loads(f.data) for f in frames if f.data and f.data != b"[DONE]"]


def _cut_in_two(chunk: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """The chunk, its text cut at character `at`, as two; as it is if that is no place in it."""
    if not 0 < at < _size(chunk):
        return [chunk]
    choice = chunk["choices"][0]
    texts = {f: t for f, t in choice["delta"].items() if f in TEXT_FIELDS and t}
    first = {**choice["delta"], **{f: t[:at] for f, t in texts.items()}}
    second = {f: t[at:] for f, t in texts.items()}
    parts = [{**choice, "delta": first, "finish_reason": None}, {**choice, "delta": second}]
    return [{**chunk, "choices": [part]} for part in parts]


def _size(chunk: dict[str, Any]) -> int:
    """Characters of its text; none if that also stands in a list, which is not cut."""
    if len(chunk.get("choices") or []) != 1 or "reasoning_details" in chunk["choices"][0]["delta"]:
        return 0
    delta = chunk["choices"][0]["delta"]
    return max((len(delta.get(field) or "") for field in TEXT_FIELDS), default=0)


def _results(stream: bytes, folder: Path) -> list[tuple[list[Any], list[str], str]]:
    result = repair(stream, regenerate.request(folder))
    return [_gist(read(result, index)) for index in (0, 1)]


def _gist(out: Read) -> tuple[list[Any], list[str], str]:
    return out.calls, out.finish, "".join(sorted("".join(out.text.split())))


@every_cuttable
def test_text_cut_at_any_character_reads_the_same(folder: Path) -> None:
    """Every chunk is cut in two."""
    chunks = _chunks(_answer(folder))
    done = b"[DONE]" in _answer(folder)
    want = _results(sse(chunks, done=done), folder)
    longest = max(map(_size, chunks), default=0)
    for at in places_to_cut(longest, folder.name):
        cut = [part for chunk in chunks for part in _cut_in_two(chunk, at)]
        assert _results(sse(cut, done=done), folder) == want
