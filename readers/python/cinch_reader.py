"""Opens Cinch envelopes (docs/FORMAT.md, version 1). Written from that page alone.

    >>> open_value(stored, {number: dictionary_bytes})

Needs nothing but the standard library for raw, snappy, s2, minlz, lz4, zlib and gzip; for zstd Python 3.14 or the
package backports.zstd. The block decoders are plain Python: meant for jobs that read stores, not for a hot path.
"""

import base64
import hashlib
import hmac
import struct
import zlib
from typing import Mapping, NamedTuple

MAGIC = b"\xc1\xdd\xdc"
MAX_HEADER_LEN = 82
TAG_LEN = 8
DEFAULT_MAX_RAW = 32 << 20
CODECS = ("raw", "snappy", "s2", "minlz", "lz4", "zstd", "zlib", "gzip")
RAW, SNAPPY, S2, MINLZ, LZ4, ZSTD, ZLIB, GZIP = range(8)


class EnvelopeError(Exception):
    """Something that begins with the magic could not be opened."""


class Damaged(EnvelopeError):
    """No version of Cinch wrote these bytes, or one far newer."""


class UnknownCodec(EnvelopeError):
    """Sealed by a newer version, with a codec this reader lacks."""


class DictionaryMissing(EnvelopeError):
    """The envelope names a dictionary that was not given."""


class TooLarge(EnvelopeError):
    """The declared length is over max_raw."""


class Header(NamedTuple):
    codec: int
    dictionary: int  # 0: none
    raw_len: int
    checksum: int  # of the value, if there is no dictionary
    tag: bytes  # of header and payload, if there is one
    tag_at: int
    length: int  # bytes of the header


def dictionary_number(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big")


def is_sealed(stored: bytes) -> bool:
    return stored[:3] == MAGIC


def parse_header(stored: bytes) -> Header:
    """Needs the first MAX_HEADER_LEN bytes of an envelope, or all of it."""
    try:
        if stored[3] >> 4 != 1:
            raise Damaged("unknown version")
        codec, flags = stored[3] & 15, stored[4]
        if flags & 0x70:
            raise Damaged("reserved flag is set")
        raw_len, at = _uvarint(stored, 5)
        tag_at, tag, number, checksum = at, b"", 0, 0
        if flags & 0x80:
            tag, number = struct.unpack_from(f">{TAG_LEN}sI", stored, at)
            at += TAG_LEN + 4
            if number == 0:
                raise Damaged("dictionary number is 0")
            if codec < len(CODECS) and codec != ZSTD:
                raise Damaged("only zstd takes a dictionary")
        else:
            (checksum,) = struct.unpack_from("<I", stored, at)
            at += 4
        at += 4 * (flags & 15)
        if at > len(stored):
            raise Damaged("header is cut off")
        return Header(codec, number, raw_len, checksum, tag, tag_at, at)
    except (IndexError, struct.error):
        raise Damaged("header is cut off") from None


def open_value(stored: bytes, dictionaries: Mapping[int, bytes] = {}, max_raw: int = DEFAULT_MAX_RAW) -> bytes:
    """Returns the value that stored stands for; bytes without the magic come back as they are."""
    if not is_sealed(stored):
        return stored
    h = parse_header(stored)
    if h.codec >= len(CODECS):
        raise UnknownCodec(f"codec {h.codec}")
    if h.codec != RAW and h.raw_len > max_raw:
        raise TooLarge(f"{h.raw_len} bytes declared, at most {max_raw} are opened")
    dictionary = None
    if h.dictionary:
        dictionary = dictionaries.get(h.dictionary)
        if dictionary is None or dictionary_number(dictionary) != h.dictionary:
            raise DictionaryMissing(f"{h.dictionary:08x}")
        if not hmac.compare_digest(_tag(h, stored, dictionary), h.tag):
            raise Damaged("tag does not match")  # before anything is decoded: who has no dictionary makes no tag
    value = _decode(h, stored[h.length :], dictionary)
    if len(value) != h.raw_len:
        raise Damaged(f"{len(value)} bytes, {h.raw_len} declared")
    if not h.dictionary and zlib.crc32(value) != h.checksum:
        raise Damaged("checksum does not match")
    return bytes(value)


def _tag(h: Header, stored: bytes, dictionary: bytes) -> bytes:
    key = hashlib.sha256(b"cinch tag v1" + dictionary).digest()
    mac = hmac.new(key, stored[: h.tag_at], hashlib.sha256)
    mac.update(stored[h.tag_at + TAG_LEN :])
    return mac.digest()[:TAG_LEN]


def fetch_dictionary(client, number: int) -> bytes:
    """Finds a dictionary in the Redis server whose values name it, see the appendix of docs/FORMAT.md.

    client is a redis.Redis of database 0 without decode_responses, or whatever else has its execute_command.
    """
    name = f"{number:08x}"
    content = None
    for library, key in (("cinch_dict_", "cinch:dict:"), ("cinch_archive_", "cinch:dict:archive:")):
        if content is None:
            content = _call(client, library + name)
        if content is None:
            content = client.execute_command("GET", key + name)
    if content is None or dictionary_number(content) != number:
        raise DictionaryMissing(name)
    return content


def _call(client, function: str):
    try:
        return base64.b64decode(client.execute_command("FCALL_RO", function, 0))
    except Exception as e:  # each client has classes of its own
        if not any(text in str(e).lower() for text in ("function not found", "unknown command")):
            raise
        return None


def _decode(h: Header, payload: bytes, dictionary):
    if h.codec == RAW:
        return payload
    if h.codec == ZSTD:
        return _zstd(payload, h.raw_len, dictionary)
    try:
        if h.codec in (SNAPPY, S2):
            return _snappy(payload, h.raw_len, repeats=h.codec == S2)
        if h.codec == MINLZ:
            return _minlz(payload, h.raw_len)
        if h.codec == LZ4:
            return _lz4(payload, h.raw_len)
    except IndexError:
        raise Damaged("payload is cut off") from None
    return _deflate(payload, h.raw_len, zlib.MAX_WBITS if h.codec == ZLIB else zlib.MAX_WBITS | 16)


def _deflate(payload, raw_len, wbits):
    d = zlib.decompressobj(wbits)
    try:
        value = d.decompress(payload, raw_len + 1)  # one more, so that an overlong value shows
    except zlib.error as e:
        raise Damaged(str(e)) from None
    if not d.eof or d.unused_data or d.unconsumed_tail:
        raise Damaged("payload does not end with the stream")
    return value


def _zstd(payload, raw_len, dictionary):
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    zstd_dict = None
    if dictionary is not None:
        zstd_dict = zstd.ZstdDict(dictionary, is_raw=not dictionary.startswith(b"\x37\xa4\x30\xec"))
    try:
        d = zstd.ZstdDecompressor(zstd_dict)
        value = d.decompress(b"\x28\xb5\x2f\xfd" + payload, raw_len + 1)
    except zstd.ZstdError as e:
        raise Damaged(str(e)) from None
    if not d.eof or d.unused_data:
        raise Damaged("payload is not one frame")
    return value


def _uvarint(b, at):
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
        piece = out[start : start + n]
        out += piece
        start, n = start + len(piece), n - len(piece)


def _lz4(b, limit):
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


def _snappy(b, limit, repeats):
    n, at = _uvarint(b, 0)
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


def _minlz(b, limit):
    if b[0] != 0:
        raise Damaged("not a MinLZ block")
    if len(b) == 1:
        return b""
    n, at = _uvarint(b, 1)
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
