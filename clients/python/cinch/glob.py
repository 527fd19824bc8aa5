"""Redis's globs on bytes, as stringmatchlen in its util.c has them."""

import re
from typing import List


def compile_glob(pattern: bytes) -> "Glob":
    """Every pattern means something, as in Redis: a class that is not closed runs to the end."""
    pieces, i = [[]], 0
    while i < len(pattern):
        c = pattern[i : i + 1]
        i += 1
        if c == b"*":
            pieces.append([])
        elif c == b"?":
            pieces[-1].append(b".")
        elif c == b"[":
            piece, i = _class(pattern, i)
            pieces[-1].append(piece)
        elif c == b"\\" and i < len(pattern):
            pieces[-1].append(re.escape(pattern[i : i + 1]))
            i += 1
        else:
            pieces[-1].append(re.escape(c))
    return Glob(pieces)


class Glob:
    """What stands between stars, each an expression for so many bytes. The first place where a piece matches is as good as any
    later one, so nothing is tried twice, and no pattern takes long."""

    def __init__(self, pieces: "List[List[bytes]]"):
        self.pieces = [re.compile(b"".join(piece), re.DOTALL) for piece in pieces]
        self._last = len(pieces[-1])  # bytes

    def fullmatch(self, text: bytes) -> bool:
        first, *middle = self.pieces
        if not middle:
            return first.fullmatch(text) is not None
        found = first.match(text)
        *middle, last = middle
        end = len(text) - self._last
        for piece in middle:
            found = found and piece.search(text, found.end(), max(end, 0))
        return found is not None and found.end() <= end and last.match(text, end) is not None


def _class(pattern: bytes, i: int):
    negated = pattern[i : i + 1] == b"^"
    i += negated
    members = set()
    while i < len(pattern):
        if pattern[i] == ord("\\") and i + 1 < len(pattern):
            members.add(pattern[i + 1])
            i += 2
        elif pattern[i] == ord("]"):
            i += 1
            break
        elif i + 2 < len(pattern) and pattern[i + 1] == ord("-"):
            low, high = sorted((pattern[i], pattern[i + 2]))
            members.update(range(low, high + 1))
            i += 3
        else:
            members.add(pattern[i])
            i += 1
    if negated:
        members = set(range(256)) - members
    if not members:
        return b"(?!)", i
    return b"[" + b"".join(re.escape(bytes((m,))) for m in sorted(members)) + b"]", i
