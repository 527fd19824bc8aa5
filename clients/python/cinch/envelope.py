"""Opens and seals Cinch envelopes (docs/FORMAT.md, version 1). Written from that page alone.

>>> seal_value(value, dictionary=Dictionary(content))
>>> open_value(stored, {dictionary.number: dictionary})

Values and dictionaries are bytes. Nothing is kept of what is given.
"""

import hashlib
import hmac
import struct
import zlib
from typing import Callable, Mapping, NamedTuple, Optional, Union

from . import blocks
from .dictionary import Dictionary, dictionary_number, find, need_zstd
from .errors import Damaged, DictionaryMissing, EnvelopeError, TooLarge, UnknownCodec

__all__ = [
    "Dictionary", "Header", "dictionary_number", "is_sealed", "open_value", "parse_header", "seal_value",
    "Damaged", "DictionaryMissing", "EnvelopeError", "TooLarge", "UnknownCodec",
]  # fmt: skip

MAGIC = b"\xc1\xdd\xdc"
MAX_HEADER_LEN = 82
TAG_LEN = 8
DEFAULT_MAX_RAW = 32 << 20
CODECS = ("raw", "snappy", "s2", "minlz", "lz4", "zstd", "zlib", "gzip")
RAW, SNAPPY, S2, MINLZ, LZ4, ZSTD, ZLIB, GZIP = range(8)
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Header(NamedTuple):
    codec: int
    dictionary: int  # 0: none
    raw_len: int
    checksum: int  # of the value, if there is no dictionary
    tag: bytes  # of header and payload, if there is one
    tag_at: int
    length: int  # bytes of the header
    foreign: bytes = b""  # the word that says in which format another library had compressed the value; empty: none had


def is_sealed(stored: bytes) -> bool:
    """Whether the bytes begin with the magic: then they are an envelope, or damaged."""
    return stored[:3] == MAGIC


def parse_header(stored: bytes) -> Header:
    """Needs the first MAX_HEADER_LEN bytes of an envelope, or all of it."""
    try:
        if stored[3] >> 4 != 1:
            raise Damaged("unknown version")
        codec, flags = stored[3] & 15, stored[4]
        if flags & 0x30:
            raise Damaged("reserved flag is set")
        raw_len, at = blocks.uvarint(stored, 5)
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
        words = stored[at : at + 4 * (flags & 15)]
        at += 4 * (flags & 15)
        if at > len(stored):
            raise Damaged("header is cut off")
        foreign = words[:4] if flags & 0x40 else b""
        if flags & 0x40 and (foreign[:1] != b"\x01" or foreign[1] == 0 or foreign[3] != 0):
            raise Damaged("no format of the value is named")
        return Header(codec, number, raw_len, checksum, tag, tag_at, at, foreign)
    except (IndexError, struct.error):
        raise Damaged("header is cut off") from None


def open_value(
    stored: bytes,
    dictionaries: Mapping[int, Union[bytes, Dictionary]] = {},
    max_raw: int = DEFAULT_MAX_RAW,
    content: bool = False,
) -> bytes:
    """Returns the value that stored stands for; bytes without the magic come back as they are.

    Of a value that another library had compressed (FORMAT.md, 11) it returns the content, if content is true; otherwise
    that is an UnknownCodec.
    """
    if not is_sealed(stored):
        return stored
    h = parse_header(stored)
    if h.foreign and not content:
        raise UnknownCodec(f"the content of a value in another library's format, number {h.foreign[1]}: read it through a gateway")
    if h.codec >= len(CODECS):
        raise UnknownCodec(f"codec {h.codec}")
    if h.codec != RAW and h.raw_len > max_raw:
        raise TooLarge(f"{h.raw_len} bytes declared, at most {max_raw} are opened")
    dictionary = None
    if h.dictionary:
        dictionary = find(dictionaries, h.dictionary)
        if dictionary is None:
            raise DictionaryMissing(f"{h.dictionary:08x}")
        tag = _tag(dictionary, stored[: h.tag_at], stored[h.tag_at + TAG_LEN :])
        if not hmac.compare_digest(tag, h.tag):
            raise Damaged("tag does not match")  # before anything is decoded: who has no dictionary makes no tag
    value = _decode(h, stored[h.length :], dictionary)
    if len(value) != h.raw_len:
        raise Damaged(f"{len(value)} bytes, {h.raw_len} declared")
    if not h.dictionary and zlib.crc32(h.foreign, zlib.crc32(value)) != h.checksum:
        raise Damaged("checksum does not match")
    return bytes(value)


def seal_value(
    value: bytes,
    level: int = 3,
    dictionary: Optional[Dictionary] = None,
    worth: Optional[Callable[[int, int], bool]] = None,
    max_raw: int = DEFAULT_MAX_RAW,
) -> bytes:
    """Returns what to store for a value: its envelope, by zstd, or the value itself where that is better.

    worth decides whether so many bytes in place of so many are a gain; any saving is, without it. A value that begins
    with the magic is put into an envelope in any case, so that opening gives it back.
    """
    if value and len(value) <= max_raw:
        sealed = _zstd_envelope(value, level, dictionary)
        if (worth or _smaller)(len(value), len(sealed)):
            return sealed
    return escape(value) if is_sealed(value) else value


def escape(value: bytes) -> bytes:
    """An envelope that holds the value as it is."""
    return _head(RAW, len(value), 0) + struct.pack("<I", zlib.crc32(value)) + value


def _smaller(raw: int, sealed: int) -> bool:
    return sealed < raw


def _zstd_envelope(value: bytes, level: int, dictionary: Optional[Dictionary]) -> bytes:
    zstd = need_zstd()
    p = zstd.CompressionParameter
    options = {p.compression_level: level, p.checksum_flag: 0, p.dict_id_flag: 0, p.content_size_flag: 1}
    prepared = dictionary.zstd.as_digested_dict if dictionary else None
    payload = zstd.compress(value, options=options, zstd_dict=prepared)[len(ZSTD_MAGIC) :]
    if dictionary is None:
        return _head(ZSTD, len(value), 0) + struct.pack("<I", zlib.crc32(value)) + payload
    before, after = _head(ZSTD, len(value), 0x80), struct.pack(">I", dictionary.number) + payload
    return before + _tag(dictionary, before, after) + after


def _head(codec: int, raw_len: int, flags: int) -> bytes:
    out = bytearray(MAGIC)
    out += bytes((1 << 4 | codec, flags))
    while raw_len >= 0x80:
        out.append(raw_len & 0x7F | 0x80)
        raw_len >>= 7
    out.append(raw_len)
    return bytes(out)


def _tag(dictionary: Dictionary, before: bytes, after: bytes) -> bytes:
    mac = hmac.new(dictionary.tag_key, before, hashlib.sha256)
    mac.update(after)
    return mac.digest()[:TAG_LEN]


def _decode(h: Header, payload: bytes, dictionary: Optional[Dictionary]):
    if h.codec == RAW:
        return payload
    if h.codec == ZSTD:
        return _zstd(payload, h.raw_len, dictionary)
    try:
        if h.codec in (SNAPPY, S2):
            return blocks.snappy(payload, h.raw_len, repeats=h.codec == S2)
        if h.codec == MINLZ:
            return blocks.minlz(payload, h.raw_len)
        if h.codec == LZ4:
            return blocks.lz4(payload, h.raw_len)
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
    return open_frame(ZSTD_MAGIC + payload, raw_len, dictionary)


def open_frame(frame, raw_len, dictionary=None):
    """Decompresses one frame of zstd; it makes at most a byte more than raw_len, by which that is noticed."""
    zstd = need_zstd()
    try:
        d = zstd.ZstdDecompressor(dictionary.zstd if dictionary else None)
        value = d.decompress(frame, raw_len + 1)
    except zstd.ZstdError as e:
        raise Damaged(str(e)) from None
    if not d.eof or d.unused_data:
        raise Damaged("payload is not one frame")
    return value
