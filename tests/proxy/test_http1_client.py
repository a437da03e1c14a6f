"""The reader of chunked bodies reads what mitmproxy's does, in fewer pieces."""

from __future__ import annotations

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.proxy.mitm.http1_client import JoiningReader

DATA = b'data: {"choices":[]}\r\n\n'
LAST = b"0\r\n\r\n"


def chunk(data: bytes, header: str = "{:x}") -> bytes:
    return header.format(len(data)).encode() + b"\r\n" + data + b"\r\n"


data = st.binary(min_size=1, max_size=40) | st.just(DATA)
headers = st.sampled_from(["{:x}", "{:X}", "000{:x}", "{:x};ext=1", "{:x} "])
chunks = st.builds(chunk, data, headers)
faults = st.sampled_from([b"", LAST, b"0\r\nx-checksum: 1\r\n\r\n", b"5\r\nabcdefg\r\n", b"zz\r\n"])
bodies = st.builds(lambda body, end: b"".join(body) + end, st.lists(chunks, max_size=8), faults)
cuts = st.lists(st.integers(1, 60), min_size=1, max_size=30)


def joining() -> JoiningReader:
    reader = JoiningReader()
    reader.joins = True
    return reader


def read(reader: ChunkedReader, pieces: list[bytes]) -> list[tuple[bytes, str]]:
    """The data that is there after each piece, and how the body has ended or failed."""
    buffer, result = ReceiveBuffer(), []
    end = ""
    for piece in pieces:
        buffer += piece
        received = b""
        try:
            while not end and (event := reader(buffer)) is not None:
                if isinstance(event, h11.EndOfMessage):
                    end = "end"
                else:
                    received += bytes(event.data)
        except h11.ProtocolError as error:
            end = str(error)
        result.append((received, end))
    return result


def cut(body: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    while at < len(body):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(body[at : at + size])
        at += size
    return pieces


@given(bodies, cuts)
@example(chunk(DATA) * 3 + LAST, [1])
@example(chunk(DATA) * 3 + LAST, [len(chunk(DATA)) - 1])
def test_after_each_piece_the_same_data_and_the_same_end_are_there(
    body: bytes, sizes: list[int]
) -> None:
    pieces = cut(body, sizes)
    assert read(joining(), pieces) == read(ChunkedReader(), pieces)


def test_the_chunks_of_a_read_and_the_part_of_the_last_one_are_one_piece() -> None:
    buffer = ReceiveBuffer()
    buffer += chunk(DATA) * 5 + chunk(DATA)[:9]
    event = joining()(buffer)
    assert isinstance(event, h11.Data)
    assert event.data == DATA * 5 + chunk(DATA)[4:9]
    assert not buffer


def test_chunks_of_other_replies_stay_apart() -> None:
    buffer = ReceiveBuffer()
    buffer += chunk(DATA) * 2
    reader = JoiningReader()
    assert [reader(buffer).data, reader(buffer).data] == [DATA, DATA]


def test_trailers_are_left_out() -> None:
    buffer = ReceiveBuffer()
    buffer += b"0\r\nx-checksum: 1\r\n\r\n"
    assert JoiningReader()(buffer) == h11.EndOfMessage()


class CountingBuffer(ReceiveBuffer):
    copies = 0

    def __bytes__(self) -> bytes:
        self.copies += 1
        return super().__bytes__()


def test_a_header_without_an_end_is_not_copied_with_each_piece() -> None:
    reader, buffer = joining(), CountingBuffer()
    for _ in range(1024):
        buffer += b"1" * 4096
        assert reader(buffer) is None
    assert buffer.copies <= 128 * 1024 / 4096
