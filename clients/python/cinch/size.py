"""What a Redis server (7.x, jemalloc, 64 bits) allocates for a value: MEMORY USAGE, less what does not depend on the value."""

_LISTPACK_MAX = 64  # hash-max-listpack-value


def cost(kind: str, raw: int, sealed: int):
    """Bytes before and after, where sealed bytes stand in place of raw ones."""
    if kind == "stream" or kind == "hash" and max(raw, sealed) <= _LISTPACK_MAX:
        return _listpack(raw), _listpack(sealed)
    if kind == "hash":
        return _sds(raw), _sds(sealed)
    return _string(raw), _string(sealed)


def _class(n: int) -> int:
    """jemalloc's size class: multiples of 16 up to 128, then four steps a doubling."""
    if n <= 8:
        return 8
    if n <= 128:
        return (n + 15) & ~15
    step = 1 << ((n - 1).bit_length() - 3)
    return (n + step - 1) & ~(step - 1)


def _sds(n: int) -> int:
    header = 1 if n < 1 << 5 else 3 if n < 1 << 8 else 5 if n < 1 << 16 else 9 if n < 1 << 32 else 17
    return _class(header + n + 1)


def _string(n: int) -> int:
    return _class(16 + 3 + n + 1) if n <= 44 else _class(16) + _sds(n)


def _listpack(n: int) -> int:
    entry = n + (1 if n < 1 << 6 else 2 if n < 1 << 12 else 5)
    for width, end in enumerate((127, (1 << 14) - 2, (1 << 21) - 2, (1 << 28) - 2), 1):
        if entry <= end:
            return entry + width
    return entry + 5
