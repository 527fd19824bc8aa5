"""Reads one direction of a link between two gateways (docs/PEER.md): a second implementation, written from the document alone.

It decompresses and checks; it neither writes nor talks to a network.
"""

import hmac
import struct

from cinch import blocks
from cinch.dictionary import need_zstd
from cinch.errors import Damaged

MAGIC = b"\0CINCHT\n"
VERSION = 1
HELLO_LEN = 15
MAX_RAW = 64 << 10
MAX_OVERHEAD = 1024
MIN_WINDOW, MAX_WINDOW = 16, 23
KEY, NONCE_LEN, PROOF_LEN = 3, 16, 32  # the extension of gateways with a key

RAW, SNAPPY, S2, MINLZ, LZ4, ZSTD = 0, 1, 2, 3, 4, 5


def _crc_table():
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        yield i


_CRC = tuple(_crc_table())


def crc32c(b):
    crc = 0xFFFFFFFF
    for c in b:
        crc = crc >> 8 ^ _CRC[(crc ^ c) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _snappy(payload, limit):
    return blocks.snappy(payload, limit, repeats=False)


def _s2(payload, limit):
    return blocks.snappy(payload, limit, repeats=True)


class Hello:
    """The first message of each side."""

    def __init__(self, b):
        if len(b) < HELLO_LEN or b[:8] != MAGIC:
            raise Damaged("no hello")
        self.lowest, self.highest, self.window, self.status, self.codecs, n = struct.unpack(">BBBBHB", b[8:HELLO_LEN])
        if self.lowest > self.highest or len(b) != HELLO_LEN + n:
            raise Damaged("hello is malformed")
        if not self.lowest <= VERSION <= self.highest:
            raise Damaged("no common version")
        if self.window and not MIN_WINDOW <= self.window <= MAX_WINDOW:
            raise Damaged("window is out of range")
        if not self.codecs & 1:
            raise Damaged("raw is missing among the codecs")
        self.extensions, at = {}, HELLO_LEN
        while at + 2 <= len(b) and at + 2 + b[at + 1] <= len(b):
            self.extensions.setdefault(b[at], b[at + 2 : at + 2 + b[at + 1]])
            at += 2 + b[at + 1]


def proof(key, side, near, far):
    """What proves that a side, b"near" or b"far", has the key. near and far are the hellos."""
    return hmac.digest(key, side + near + far[:-PROOF_LEN], "sha256")


def far_proves(key, near, far):
    content = Hello(far).extensions.get(KEY, b"")
    return len(content) == NONCE_LEN + PROOF_LEN and hmac.compare_digest(far[-PROOF_LEN:], proof(key, b"far", near, far))


def near_proves(key, near, far, frame):
    return hmac.compare_digest(frame, b"\x21" + proof(key, b"near", near, far))


class Link:
    """One direction after OPEN. granted is the largest window that this side has allowed, codecs those that it has offered."""

    def __init__(self, granted, codecs=1 << RAW | 1 << SNAPPY | 1 << S2 | 1 << MINLZ | 1 << LZ4 | 1 << ZSTD):
        self.granted, self.codecs = granted, codecs
        self.stream = None
        self.ended = False
        self.reset = None  # the reason

    def read(self, b):
        """The bytes that the frames carry; b has whole frames."""
        out, at = bytearray(), 0
        while at < len(b):
            at = self._frame(b, at, out)
        return bytes(out)

    def _frame(self, b, at, out):
        kind, at = b[at], at + 1
        if self.ended and kind not in (0x40, 0x41, 0x50):
            raise Damaged("a frame after the end")
        if kind == 0:
            raw_len, at = self._raw_len(b, at)
            if at + raw_len > len(b):
                raise Damaged("block is cut off")
            out += b[at : at + raw_len]
            return at + raw_len
        if kind < 0x10:
            return self._coded(b, at, out, lambda payload, n: self._block(kind, payload, n))
        if kind in (0x10, 0x11):
            if kind == 0x11:
                self._begin(b[at])
                at += 1
            return self._coded(b, at, out, self._piece)
        if kind == 0x30:
            self.ended = True
            return at
        if kind == 0x31:
            self.ended, self.reset = True, b[at]
            return at + 1
        if kind == 0x40:
            window, _epoch = b[at], b[at + 1]
            if window and not MIN_WINDOW <= window <= MAX_WINDOW:
                raise Damaged("window is out of range")
            return at + 2
        if kind == 0x41:
            self.stream = None
            return at
        if kind == 0x50:
            return blocks.uvarint(b, at)[1]
        raise Damaged("frame %02x is unknown or out of place" % kind)

    def _raw_len(self, b, at):
        n, at = blocks.uvarint(b, at)
        if not 1 <= n <= MAX_RAW:
            raise Damaged("a piece of %d bytes" % n)
        return n, at

    def _coded(self, b, at, out, decompress):
        raw_len, at = self._raw_len(b, at)
        n, at = blocks.uvarint(b, at)
        if not 1 <= n <= raw_len + MAX_OVERHEAD or at + 4 + n > len(b):
            raise Damaged("a piece of %d bytes is %d bytes long" % (raw_len, n))
        crc, at = int.from_bytes(b[at : at + 4], "big"), at + 4
        raw = decompress(b[at : at + n], raw_len)
        if len(raw) != raw_len or crc32c(raw) != crc:
            raise Damaged("a piece has other bytes than its sender had")
        out += raw
        return at + n

    def _block(self, codec, payload, raw_len):
        if not self.codecs >> codec & 1:
            raise Damaged("codec %d was not offered" % codec)
        if codec == ZSTD:  # a frame without its magic number
            d = need_zstd().ZstdDecompressor()
            raw = d.decompress(b"\x28\xb5\x2f\xfd" + payload, raw_len + 1)
            if not d.eof or d.unused_data:
                raise Damaged("not one whole zstd frame")
            return raw
        decoder = {SNAPPY: _snappy, S2: _s2, MINLZ: blocks.minlz, LZ4: blocks.lz4}[codec]
        return decoder(payload, raw_len)

    def _begin(self, window):
        if not MIN_WINDOW <= window <= self.granted:
            raise Damaged("a window of 2^%d, granted were 2^%d" % (window, self.granted))
        self.stream = need_zstd().ZstdDecompressor()
        self.stream.decompress(b"\x28\xb5\x2f\xfd\x00" + bytes([(window - 10) << 3]))

    def _piece(self, payload, raw_len):
        if self.stream is None:
            raise Damaged("a piece without a stream")
        raw = self.stream.decompress(payload, raw_len + 1)
        if self.stream.eof or not self.stream.needs_input:
            raise Damaged("the stream has ended, or holds more")
        return raw
