"""SPDY/3.1 as kubectl speaks it, and what a hostile client sends instead."""

import random
import struct
import zlib

import pytest

from kubesim.streaming.pipe import FULL_BYTES
from kubesim.streaming.spdy import DICTIONARY, LONGEST_CONTROL, MAX_STREAMS, SpdyConnection, SpdyError


class Client:
    """The other side: sends frames, and keeps what comes back."""

    def __init__(self, refuse: str = "") -> None:
        self.sent = bytearray()
        self.opened = []
        self.calls = []
        self.deflate = zlib.compressobj(zdict=DICTIONARY)
        self.spdy = SpdyConnection(
            self.sent.extend,
            self.drain,
            lambda stream: self.opened.append(stream) or refuse,
            lambda: self.calls.append("pause"),
            lambda: self.calls.append("resume"),
        )

    async def drain(self) -> None:
        """Take everything at once."""

    def block(self, **headers: str) -> bytes:
        plain = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name.encode(), value.encode()):
                plain += struct.pack(">I", len(text)) + text
        return self.deflate.compress(plain) + self.deflate.flush(zlib.Z_SYNC_FLUSH)

    def control(self, kind: int, payload: bytes, flags: int = 0) -> bytes:
        return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(payload)) + payload

    def syn(self, number: int, flags: int = 0, **headers: str) -> bytes:
        return self.control(1, struct.pack(">IIH", number, 0, 0) + self.block(**headers), flags)

    def data(self, number: int, data: bytes, flags: int = 0) -> bytes:
        return struct.pack(">II", number, flags << 24 | len(data)) + data

    def answers(self):
        """Return (type or stream, payload) of every frame that came back."""
        found, rest = [], bytes(self.sent)
        while rest:
            first, second = struct.unpack_from(">II", rest)
            length = second & 0xFFFFFF
            found.append((first & 0xFFFF if first >> 31 else first, rest[8 : 8 + length]))
            rest = rest[8 + length :]
        return found


async def test_a_stream_opens_carries_bytes_both_ways_and_ends():
    client = Client()
    client.spdy.feed(client.syn(1, streamtype="stdin") + client.data(1, b"hello") + client.data(1, b"", 1))
    (stream,) = client.opened
    assert stream.headers == {"streamtype": "stdin"}
    assert await stream.read(2) == b"he"
    assert await stream.read() == b"llo"
    assert await stream.read() == b""
    await stream.write(b"bye")
    stream.close()
    kinds = [kind for kind, _ in client.answers()]
    assert kinds == [2, 1, 1]  # SYN_REPLY, data of stream 1, its end


async def test_frames_may_arrive_byte_by_byte():
    client = Client()
    for byte in client.syn(1, streamtype="data", port="80") + client.data(1, b"x" * 300) + client.data(1, b"", 1):
        client.spdy.feed(bytes([byte]))
    (stream,) = client.opened
    assert stream.headers == {"streamtype": "data", "port": "80"}
    assert await stream.read() == b"x" * 300
    assert await stream.read() == b""


def test_pings_are_answered_and_ours_are_not_echoed_again():
    client = Client()
    client.spdy.feed(client.control(6, struct.pack(">I", 7)) + client.control(6, struct.pack(">I", 8)))
    assert client.answers() == [(6, struct.pack(">I", 7))]


def test_data_for_streams_that_are_not_there_is_dropped():
    client = Client()
    client.spdy.feed(client.data(99, b"x" * 5000, 1) + client.control(3, struct.pack(">II", 99, 5)))
    assert client.answers() == []


def test_stream_ids_that_are_even_or_go_back_are_reset():
    client = Client()
    client.spdy.feed(client.syn(5) + client.syn(3) + client.syn(6) + client.syn(5))
    assert [stream.number for stream in client.opened] == [5]
    assert [kind for kind, _ in client.answers()] == [2, 3, 3, 3]


def test_a_flood_of_streams_is_refused_beyond_a_bound():
    client = Client()
    for number in range(1, 2 * MAX_STREAMS + 21, 2):
        client.spdy.feed(client.syn(number))
    assert len(client.spdy.streams) == MAX_STREAMS
    assert [kind for kind, _ in client.answers()].count(3) == 10


def test_headers_are_read_even_of_a_refused_stream():
    client = Client("no")
    client.spdy.feed(client.syn(1, streamtype="one") + client.syn(3, streamtype="two"))
    assert [stream.headers["streamtype"] for stream in client.opened] == ["one", "two"]
    assert client.spdy.streams == {}


def test_a_bomb_in_the_headers_is_refused():
    client = Client()
    deflate = zlib.compressobj(zdict=DICTIONARY)
    bomb = deflate.compress(bytes(30 << 20)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < LONGEST_CONTROL
    with pytest.raises(SpdyError, match="headers too large"):
        client.spdy.feed(client.control(1, struct.pack(">IIH", 1, 0, 0) + bomb))


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">HHI", 0x8003, 1, LONGEST_CONTROL + 1),
        struct.pack(">HHI", 0x8002, 1, 0),
        struct.pack(">HHI", 0x8003, 1, 3) + b"abc",
        struct.pack(">HHI", 0x8003, 1, 14) + struct.pack(">IIH", 1, 0, 0) + b"junk",
        struct.pack(">HHI", 0x8003, 6, 0),
    ],
    ids=["too large", "another version", "too short", "not compressed", "a ping of nothing"],
)
def test_a_broken_frame_ends_the_connection(frame):
    with pytest.raises(SpdyError):
        Client().spdy.feed(frame)


def test_noise_never_does_more_than_end_the_connection():
    noise = random.Random(3)
    for _ in range(300):
        client = Client()
        good = client.syn(1, streamtype="stdin") + client.data(1, b"abc")
        broken = bytearray(good * 2)
        for _ in range(4):
            broken[noise.randrange(len(broken))] = noise.randrange(256)
        try:
            client.spdy.feed(bytes(broken))
        except SpdyError:
            client.spdy.lost()
            assert client.spdy.streams == {}


async def test_a_reader_that_falls_behind_stops_the_arrival_of_data():
    client = Client()
    client.spdy.feed(client.syn(1) + client.data(1, bytes(FULL_BYTES + 1)))
    assert client.calls == ["pause"]
    await client.opened[0].read()
    assert client.calls == ["pause", "resume"]


async def test_every_stream_ends_with_the_connection():
    client = Client()
    client.spdy.feed(client.syn(1) + client.syn(3))
    client.spdy.lost()
    assert [await stream.read() for stream in client.opened] == [b"", b""]
