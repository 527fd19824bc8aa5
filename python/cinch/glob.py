"""Redis's globs on bytes, as stringmatchlen in its util.c has them."""

import re


def compile_glob(pattern: bytes) -> "re.Pattern[bytes]":
    """Every pattern means something, as in Redis: a class that is not closed runs to the end."""
    out, i = [], 0
    while i < len(pattern):
        c = pattern[i : i + 1]
        i += 1
        if c == b"*":
            if out[-1:] != [b".*"]:
                out.append(b".*")
        elif c == b"?":
            out.append(b".")
        elif c == b"[":
            piece, i = _class(pattern, i)
            out.append(piece)
        elif c == b"\\" and i < len(pattern):
            out.append(re.escape(pattern[i : i + 1]))
            i += 1
        else:
            out.append(re.escape(c))
    return re.compile(b"".join(out), re.DOTALL)


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
