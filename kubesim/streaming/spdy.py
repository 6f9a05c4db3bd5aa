"""SPDY/3.1, both sides of what kubectl and kubelets speak: streams both ways over one connection.

Format: "SPDY Protocol - Draft 3.1", sections 2.2 (frames) and 2.6 (control frames). As Kubernetes' own library does,
it keeps no flow-control windows; a reader that falls behind stops the reading of the whole connection instead.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum

from kubesim import data
from kubesim.streaming.pipe import FULL_BYTES, Pipe

VERSION = 0x8003
LONGEST_CONTROL = 64 * 1024
LONGEST_HEADERS = 64 * 1024  # after decompression
LONGEST_DATA = 32 * 1024
MAX_STREAMS = 512
FIN = 0x01
_TABLE = data.table(__file__, "spdy.yaml")
_WORDS = [word.encode() for word in [*_TABLE["names"].split(), *_TABLE["values"]]]
DICTIONARY = b"".join(len(word).to_bytes(4, "big") + word for word in _WORDS) + _TABLE["rest"].encode()
"""Dictionary with which SPDY/3 compresses headers: section 2.6.10.1."""


class SpdyError(Exception):
    """The other side broke the protocol; the connection cannot go on."""


class Control(IntEnum):
    """The types of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


class Reset(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    REFUSED_STREAM = 3
    CANCEL = 5


class SpdyStream:
    """One stream: the headers with which the other side opened it (names in lower case), and bytes both ways."""

    def __init__(self, connection: SpdyConnection, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.incoming = Pipe(connection.levelled)
        self._connection = connection
        self._closed = False

    async def read(self, size: int = -1) -> bytes:
        """Return what the other side sent; b"" once it has closed its half."""
        return await self.incoming.read(size)

    async def write(self, data: bytes) -> None:
        """Send data, no faster than the other side takes it; what is written after the end is dropped."""
        for start in range(0, len(data), LONGEST_DATA):
            if self._closed:
                return
            self._connection.send_data(self.number, data[start : start + LONGEST_DATA])
            await self._connection.drain()

    def send(self, data: bytes) -> None:
        """Send a little, at once."""
        if not self._closed:
            self._connection.send_data(self.number, data)

    def finish(self) -> None:
        """End our half; what the other side still sends can be read."""
        if not self._closed:
            self._closed = True
            self._connection.send_data(self.number, b"", FIN)

    def close(self) -> None:
        """End our half, and let nobody read any more."""
        self.finish()
        self._connection.forget(self.number)

    def reset(self, why: Reset = Reset.CANCEL) -> None:
        """End both halves at once."""
        self._closed = True
        self.incoming.end()
        self._connection.send_reset(self.number, why)
        self._connection.forget(self.number)

    def lost(self) -> None:
        """Note that the other side has reset the stream or gone."""
        self._closed = True
        self.incoming.end()


class SpdyConnection:
    """Frames in, frames out. ``feed`` takes what arrives and raises SpdyError; ``lost`` ends every stream.

    ``send`` writes to the other side, ``drain`` waits until it has taken enough, ``pause`` and ``resume`` stop and
    continue the arrival of data. ``opened`` is called with each stream that a client opens and returns an error text
    to refuse it.
    """

    def __init__(
        self,
        send: Callable[[bytes], object],
        drain: Callable[[], Awaitable[None]],
        opened: Callable[[SpdyStream], str],
        pause: Callable[[], object] = lambda: None,
        resume: Callable[[], object] = lambda: None,
    ) -> None:
        self.drain = drain
        self.streams: dict[int, SpdyStream] = {}
        self._send = send
        self._opened = opened
        self._pause = pause
        self._resume = resume
        self._paused = False
        self._last = 0
        self._buffer = bytearray()
        self._data_left = 0
        self._data_stream = 0
        self._data_ends = False
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> None:
        """Take what the other side sent, in pieces of any size."""
        self._buffer += data
        while self._step():
            pass

    def lost(self) -> None:
        """End every stream: the connection is gone."""
        for stream in [*self.streams.values()]:
            stream.lost()
        self.streams.clear()

    def levelled(self) -> None:
        """Stop the arrival of data while too much of it waits to be read."""
        full = sum(stream.incoming.waiting for stream in self.streams.values()) > FULL_BYTES
        if full != self._paused:
            self._paused = full
            (self._pause if full else self._resume)()

    def forget(self, number: int) -> None:
        """Drop a stream that is over; data that still comes for it is ignored."""
        stream = self.streams.pop(number, None)
        if stream is not None:
            stream.incoming.end()
            self.levelled()

    def send_data(self, number: int, data: bytes, flags: int = 0) -> None:
        """Send one data frame."""
        self._send(struct.pack(">II", number, flags << 24 | len(data)) + data)

    def send_reset(self, number: int, why: Reset) -> None:
        """Send RST_STREAM."""
        self._control(Control.RST_STREAM, struct.pack(">II", number, why))

    def _control(self, kind: Control, payload: bytes) -> None:
        self._send(struct.pack(">HHI", VERSION, kind, len(payload)) + payload)

    def _step(self) -> bool:
        """Take one frame, or a part of a data frame, off the buffer; False where more has to arrive first."""
        if self._data_left or self._data_ends:
            return self._take_data()
        if len(self._buffer) < 8:
            return False
        first, second = struct.unpack_from(">II", self._buffer)
        flags, length = second >> 24, second & 0xFFFFFF
        if first >> 31:
            return self._take_control(first, flags, length)
        del self._buffer[:8]
        self._data_stream, self._data_left, self._data_ends = first, length, bool(flags & FIN)
        return True

    def _take_data(self) -> bool:
        """Hand on what has arrived of a data frame; data for streams that are not there is dropped."""
        piece = bytes(self._buffer[: self._data_left])
        if self._data_left and not piece:
            return False
        del self._buffer[: len(piece)]
        self._data_left -= len(piece)
        stream = self.streams.get(self._data_stream)
        if stream is not None:
            stream.incoming.feed(piece)
        if not self._data_left and self._data_ends:
            self._data_ends = False
            if stream is not None:
                stream.incoming.end()
        return True

    def _take_control(self, first: int, flags: int, length: int) -> bool:
        if first >> 16 != VERSION:
            raise SpdyError("unsupported version")
        if length > LONGEST_CONTROL:
            raise SpdyError("control frame too large")
        if len(self._buffer) < 8 + length:
            return False
        payload = bytes(self._buffer[8 : 8 + length])
        del self._buffer[: 8 + length]
        try:
            self._handle(first & 0xFFFF, flags, payload)
        except struct.error as error:
            raise SpdyError("control frame too short") from error
        return True

    def _handle(self, kind: int, flags: int, payload: bytes) -> None:
        match kind:
            case Control.SYN_STREAM:
                self._open(flags, payload)
            case Control.RST_STREAM:
                number, _ = struct.unpack_from(">II", payload)
                stream = self.streams.pop(number, None)
                if stream is not None:
                    stream.lost()
            case Control.PING:
                (number,) = struct.unpack_from(">I", payload)
                if number % 2:  # a client's are odd; the others would answer a ping of ours
                    self._control(Control.PING, payload[:4])
            case Control.GOAWAY:
                raise SpdyError("the client goes away")

    def _open(self, flags: int, payload: bytes) -> None:
        """Take a new stream. Its headers must be read even where it is refused: they share one compressor."""
        (number,) = struct.unpack_from(">I", payload)
        number &= 0x7FFFFFFF
        headers = self._headers(payload[10:])
        if number % 2 == 0 or number <= self._last:
            self.send_reset(number, Reset.PROTOCOL_ERROR)
            return
        self._last = number
        if len(self.streams) >= MAX_STREAMS:
            self.send_reset(number, Reset.REFUSED_STREAM)
            return
        stream = SpdyStream(self, number, headers)
        if self._opened(stream):
            self.send_reset(number, Reset.REFUSED_STREAM)
            return
        self.streams[number] = stream
        if flags & FIN:
            stream.incoming.end()
        self._control(Control.SYN_REPLY, struct.pack(">I", number) + self._block({}))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        """Return a block of headers; all of a connection's share one compressor."""
        plain = struct.pack(">I", len(headers))
        for text in itertools.chain.from_iterable(headers.items()):
            plain += struct.pack(">I", len(text)) + text.encode("latin-1")
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _headers(self, block: bytes) -> dict[str, str]:
        """Read a block of headers; a name with several values keeps the first."""
        try:
            plain = self._inflate.decompress(block, LONGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError("bad header compression") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError("headers too large")
        (count,) = struct.unpack_from(">I", plain)
        headers: dict[str, str] = {}
        at = 4
        for _ in range(count):
            name, at = _text(plain, at)
            value, at = _text(plain, at)
            headers.setdefault(name.lower(), value.partition("\0")[0])
        return headers


def _text(plain: bytes, at: int) -> tuple[str, int]:
    """Return a length-prefixed text and where the next begins."""
    (length,) = struct.unpack_from(">I", plain, at)
    if at + 4 + length > len(plain):
        raise SpdyError("header block too short")
    return plain[at + 4 : at + 4 + length].decode("latin-1"), at + 4 + length
