"""Opens what envelope/testdata/bombs has: few bytes that declare many, and counts the work, which no clock does."""

import base64
import json
import math
import pathlib
import re
import sys
import unittest

import cinch
from cinch import blocks, dictionary, glob

BOMBS = json.loads((pathlib.Path(__file__).resolve().parents[3] / "envelope" / "testdata" / "bombs" / "index.json").read_text())


def lines_of(module, call, limit):
    """How many lines of a module a call runs, and what it returns or raises. It fails at the limit."""
    count = 0

    def line(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        if count > limit:
            raise AssertionError(f"over {limit} lines of {module.__name__}")
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, _event, _argument: line if frame.f_code.co_filename == module.__file__ else None)
    try:
        return count, call(), None
    except cinch.EnvelopeError as e:
        return count, None, e
    finally:
        sys.settrace(before)


class Bombs(unittest.TestCase):
    def test_work_is_bounded(self):
        self.assertGreater(len(BOMBS), 15)
        for bomb in BOMBS:
            if bomb["codec"] == "zstd" and dictionary.zstd is None:
                continue
            with self.subTest(bomb["name"]):
                self.check(bomb)

    def check(self, bomb):
        stored = base64.b64decode(bomb["stored"])
        counted = {}

        class Counting(bytearray):
            """Counts what is copied."""

            def __iadd__(self, more):
                counted["bytes"] = counted.get("bytes", 0) + len(more)
                return super().__iadd__(more)

        blocks.bytearray = Counting
        doublings = math.log2(bomb["raw_len"] + 1)  # of the lines for each copy of a long run
        try:
            _, value, error = lines_of(blocks, lambda: cinch.open_value(stored), 24 * len(stored) + 32 * doublings)
        finally:
            del blocks.bytearray
        self.assertLessEqual(counted.get("bytes", 0), bomb["raw_len"])
        if "error" in bomb:
            self.assertIsInstance(error, cinch.Damaged)
        else:
            self.assertIsNone(error)
            period = base64.b64decode(bomb["period"])
            self.assertEqual(value, (period * (len(value) // len(period) + 1))[: bomb["raw_len"]])


class Globs(unittest.TestCase):
    def test_no_pattern_goes_back_over_stars(self):
        pattern = b"*a" * 40 + b"*b"
        compiled = glob.compile_glob(pattern)
        _, matches, _ = lines_of(glob, lambda: compiled.fullmatch(b"a" * 5000), 8 * len(pattern))
        self.assertFalse(matches)
        self.assertTrue(compiled.fullmatch(b"a" * 5000 + b"b"))
        for piece in compiled.pieces:  # and within a piece nothing is repeated
            self.assertNotRegex(re.sub(rb"\\.|\[(?:\\.|[^\]])*\]", b"", piece.pattern, flags=re.DOTALL), rb"[*+{]")

    def test_like_redis(self):
        for pattern, text, matches in [
            (b"", b"", True), (b"", b"a", False), (b"*", b"", True), (b"**", b"\n", True), (b"a*a", b"a", False), (b"a*a", b"aa", True),
            (b"*ab*ba", b"aba", False), (b"*ab*ba", b"abba", True), (b"*ab*ba", b"xababba", True), (b"a*b*c", b"a-b-b-c", True),
            (b"a*b*c", b"a-c-b", False), (b"?*?", b"a", False), (b"?*?", b"ab", True), (b"*[^a]", b"aa", False), (b"*[^a]", b"ab", True),
            (b"\\**", b"*x", True), (b"\\**", b"xx", False), (b"a*[", b"ab", False), (b"*b", b"abab", True), (b"*abc*abc*", b"abcabc", True),
        ]:  # fmt: skip
            with self.subTest(pattern=pattern, text=text):
                self.assertEqual(bool(glob.compile_glob(pattern).fullmatch(text)), matches)
