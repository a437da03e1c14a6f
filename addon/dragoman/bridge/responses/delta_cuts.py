"""Where a text was cut into deltas, and what came between them, as numbers: the lengths of the
deltas, or one of the ones below."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from ...wire.json_codec import dumps
from ...wire.json_slices import LONG_STRING, writing
from ...wire.slices import Slices

_RUN = 10_000
ANNOTATION, HEARTBEAT, LOGPROBS = -1, -2, -2
"""An annotation; a ping; `LOGPROBS` less n: n log probabilities of the delta before."""


class DeltaCuts:
    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("h")

    def add(self, number: int) -> None:
        try:
            self._numbers.append(number)
        except OverflowError:  # two bytes are enough for all but a text that comes whole
            self._numbers = array("i", [*self._numbers, number])

    def writing(self, text: str) -> Slices[bytes]:
        """JSON, to be kept with the whole text; the deltas themselves if it has lone surrogates:
        JSON joins two that meet, and the lengths would be wrong."""
        numbers = self._numbers
        try:
            for begin in range(0, len(text), LONG_STRING):
                text[begin : begin + LONG_STRING].encode()
                yield
        except UnicodeEncodeError:
            return (yield from writing([*pieces(text, numbers)]))
        runs = []
        for begin in range(0, len(numbers), _RUN):
            runs.append(dumps(numbers[begin : begin + _RUN].tolist())[1:-1])
            yield
        return b"[" + b",".join(runs) + b"]"


def pieces(text: str, cuts: Sequence[int | str]) -> Iterator[int | str]:
    """The deltas of a text, and as numbers what came between them."""
    at = 0
    for cut in cuts:
        if isinstance(cut, int) and cut >= 0:
            yield text[at : at + cut]
            at += cut
        else:
            yield cut
