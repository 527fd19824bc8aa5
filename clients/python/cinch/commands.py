"""Where Redis's commands carry values, and which of them compute on values."""

from typing import Iterable, List, NamedTuple, Optional, Tuple

from .errors import Refused


class Value(NamedTuple):
    """A value among a command's arguments."""

    at: int
    key: int
    field: Optional[int]
    kind: str


def _string_at(at: int):
    return lambda args: [Value(at, 1, None, "string")]


def _pairs(args) -> List[Value]:
    return [Value(i + 1, i, None, "string") for i in range(1, len(args) - 1, 2)]


def _counted_pairs(args) -> List[Value]:
    return [Value(i + 1, i, None, "string") for i in range(2, min(2 + 2 * int(args[1]), len(args) - 1), 2)]


def _fields(args) -> List[Value]:
    return [Value(i + 1, 1, i, "hash") for i in range(2, len(args) - 1, 2)]


def _fields_after(args) -> List[Value]:
    """HSETEX key [options] FIELDS n field value ..."""
    for at in range(2, len(args) - 1):
        if args[at].upper() == b"FIELDS":
            return [Value(i + 1, 1, i, "hash") for i in range(at + 2, len(args) - 1, 2)]
    return []


def _entry(args) -> List[Value]:
    """XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [IDMPAUTO p | IDMP p i] [MAXLEN|MINID [=|~] n [LIMIT n]] id field value ..."""
    at = 2
    while at < len(args):
        option = args[at].upper()
        if option in (b"NOMKSTREAM", b"KEEPREF", b"DELREF", b"ACKED"):
            at += 1
        elif option in (b"IDMPAUTO", b"LIMIT"):
            at += 2
        elif option == b"IDMP":
            at += 3
        elif option in (b"MAXLEN", b"MINID"):
            at += 3 if args[at + 1] in (b"=", b"~") else 2
        else:
            break
    return [Value(i + 1, 1, i, "stream") for i in range(at + 1, len(args) - 1, 2)]


_WRITES = {
    b"SET": _string_at(2), b"SETNX": _string_at(2), b"GETSET": _string_at(2), b"SETEX": _string_at(3), b"PSETEX": _string_at(3),
    b"MSET": _pairs, b"MSETNX": _pairs, b"MSETEX": _counted_pairs,
    b"HSET": _fields, b"HMSET": _fields, b"HSETNX": _fields, b"HSETEX": _fields_after,
    b"XADD": _entry,
}  # fmt: skip

# Commands that read or change a value's bytes in the server: with the kind of value, and where their keys begin and end.
_COMPUTES = {
    **dict.fromkeys((b"APPEND", b"SETRANGE", b"GETRANGE", b"SUBSTR", b"STRLEN", b"SETBIT", b"GETBIT", b"BITCOUNT", b"BITPOS",
                     b"BITFIELD", b"BITFIELD_RO", b"DIGEST", b"DELEX"), ("string", 1, 2)),
    b"LCS": ("string", 1, 3), b"BITOP": ("string", 2, None), b"HSTRLEN": ("hash", 1, 2),
}  # fmt: skip


def values(args: Tuple[bytes, ...]) -> List[Value]:
    """The values that a command writes. One that is wrong writes none, as the server will say."""
    find = _WRITES.get(args[0].upper())
    try:
        return [v for v in find(args) if v.at < len(args)] if find else []
    except (IndexError, ValueError):
        return []


def computed_keys(args: Tuple[bytes, ...]) -> Iterable[Tuple[str, bytes]]:
    """The keys on whose values a command computes, with the kind of value."""
    name = args[0].upper()
    if name == b"SET" and any(a.upper() in (b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE") for a in args[3:]):
        return [("string", args[1])]
    if name in (b"SORT", b"SORT_RO") and any(a.upper() in (b"BY", b"GET") for a in args[2:]):
        return [("string", b""), ("hash", b"")]
    if name not in _COMPUTES:
        return []
    kind, first, end = _COMPUTES[name]
    return [(kind, key) for key in args[first:end]]


def refuse(args: Tuple[bytes, ...], key: bytes):
    name = args[0].decode("ascii", "replace").upper()
    raise Refused(
        f"{name} would compute on compressed bytes: the policy compresses values of {key!r}. Read the value instead, exclude the "
        "key in the policy, or send the command through a Cinch gateway, which computes on the value"
    )
