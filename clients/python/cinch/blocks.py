"""Decoders of blocks that have no package everybody has: snappy, s2, minlz and lz4, in plain Python.

At some tens of MB a second they are meant for reading what a gateway sealed with such a codec; what is written here is zstd.
"""

from .errors import Damaged


def uvarint(b, at):
    value = 0
    for i in range(5):
        c = b[at + i]
        value |= (c & 0x7F) << (7 * i)
        if c < 0x80:
            if i and c == 0:
                raise Damaged("length is not canonical")
            return value, at + i + 1
    raise Damaged("length is too long")


def _little(b, at, n):
    if at + n > len(b):
        raise Damaged("payload is cut off")
    return int.from_bytes(b[at : at + n], "little")


def _literals(out, b, at, n, limit):
    if n > len(b) - at or n > limit - len(out):
        raise Damaged("literals leave the block")
    out += b[at : at + n]
    return at + n


def _copy(out, offset, n, limit):
    """Appends n bytes from offset bytes back; the two may overlap."""
    if not 0 < offset <= len(out) or n > limit - len(out):
        raise Damaged("copy leaves the block")
    start = len(out) - offset
    while n > 0:
        piece = out[start : start + n]  # twice as long each time where the two overlap
        out += piece
        n -= len(piece)


def lz4(b, limit):
    out, at = bytearray(), 0
    while at < len(b):
        token = b[at]
        n, at = _lz4_length(b, at + 1, token >> 4)
        at = _literals(out, b, at, n, limit)
        if at == len(b):
            break  # the last sequence is literals only
        offset = _little(b, at, 2)
        n, at = _lz4_length(b, at + 2, token & 15)
        _copy(out, offset, n + 4, limit)
    return out


def _lz4_length(b, at, n):
    if n == 15:
        while True:
            c = b[at]
            n, at = n + c, at + 1
            if c != 255:
                break
    return n, at


def snappy(b, limit, repeats):
    n, at = uvarint(b, 0)
    if n != limit:
        raise Damaged("lengths differ")
    out, offset = bytearray(), 0
    while at < len(b):
        tag, at = b[at], at + 1
        kind, n = tag & 3, tag >> 2
        if kind == 0:
            if n >= 60:
                extra = n - 59
                n, at = _little(b, at, extra), at + extra
            at = _literals(out, b, at, n + 1, limit)
            continue
        if kind == 1:
            n, low = n & 7, (tag >> 5) << 8 | b[at]
            at += 1
            if low or not repeats:
                offset, n = low, n + 4
            else:  # S2's repeat of the last offset
                extra, base = {5: (1, 8), 6: (2, 260), 7: (3, 65540)}.get(n, (0, 4 + n))
                n, at = base + _little(b, at, extra), at + extra
        else:
            width = 2 if kind == 2 else 4
            offset, at, n = _little(b, at, width), at + width, n + 1
        _copy(out, offset, n, limit)
    return out


# Implements the block format of the MinLZ specification v1.0.


def minlz(b, limit):
    if b[0] != 0:
        raise Damaged("not a MinLZ block")
    if len(b) == 1:
        return b""
    n, at = uvarint(b, 1)
    if n == 0:
        return b[at:]
    if n != limit or n > 8 << 20:
        raise Damaged("lengths differ")
    out, offset = bytearray(), 1
    while at < len(b):
        tag, at = b[at], at + 1
        literals = 0
        if tag & 3 == 0:
            n, at = _minlz_length(b, at, tag >> 3, 28, 30)
            n += 1 if tag >> 3 < 29 else 0
            if not tag & 4:
                at = _literals(out, b, at, n, limit)
                continue
        elif tag & 3 == 1:
            offset = 1 + (tag >> 6 | b[at] << 2)
            n, at = 4 + (tag >> 2 & 15), at + 1
            if n == 19:
                n, at = 18 + b[at], at + 1
        elif tag & 3 == 2:
            offset = 64 + _little(b, at, 2)
            n, at = _minlz_length(b, at + 2, tag >> 2, 60, 64)
            n += 4 if tag >> 2 <= 60 else 0
        elif not tag & 4:
            offset = 64 + _little(b, at, 2)
            literals, n, at = 1 + (tag >> 3 & 3), 4 + (tag >> 5), at + 2
        else:
            word = _little(b, at - 1, 4)
            offset, literals, n = 65536 + (word >> 11), word >> 3 & 3, word >> 5 & 63
            short = n <= 60
            n, at = _minlz_length(b, at + 3, n, 60, 64)
            n += 4 if short else 0
        at = _literals(out, b, at, literals, limit)
        _copy(out, offset, n, limit)
    return out


def _minlz_length(b, at, value, last, base):
    """Values up to last stand for themselves, the next three for base plus 1, 2 or 3 more bytes."""
    extra = max(0, value - last)
    if extra:
        value = base + _little(b, at, extra)
    return value, at + extra
