"""Opens every vector of envelope/testdata/vectors, and refuses those that must be refused.

    python3 -m unittest discover -t clients/python -s clients/python/tests
"""

import base64
import json
import pathlib
import unittest

import cinch
from cinch import envelope, store

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "envelope" / "testdata" / "vectors"
CLASSES = {
    "unknown codec": cinch.UnknownCodec,
    "dictionary missing": cinch.DictionaryMissing,
    "too large": cinch.TooLarge,
}  # all others are Damaged


def given(v):
    """The dictionaries of a vector."""
    if "dictionary" not in v:
        return {}
    content = (VECTORS / v["dictionary"]).read_bytes()
    return {cinch.dictionary_number(content): content}


class Vectors(unittest.TestCase):
    def test_vectors(self):
        vectors = json.loads((VECTORS / "index.json").read_text())
        self.assertGreater(len(vectors), 100)
        for v in vectors:
            with self.subTest(v["name"]):
                self.check(v)

    def check(self, v):
        stored = (VECTORS / v["stored"]).read_bytes()
        dictionaries = given(v)
        max_raw = v.get("max_raw", cinch.DEFAULT_MAX_RAW)
        if v.get("error") == "unknown codec" and stored[3] & 0x0F < len(envelope.CODECS):
            self.skipTest("frozen for readers from before the codec had its number")
        if "error" in v:
            with self.assertRaises(CLASSES.get(v["error"], cinch.Damaged)):
                cinch.open_value(stored, dictionaries, max_raw)
        else:
            value = (VECTORS / v["value"]).read_bytes()
            self.assertEqual(cinch.open_value(stored, dictionaries, max_raw), value)


    def test_content_of_foreign_values(self):
        for v in json.loads((VECTORS / "foreign.json").read_text()):
            stored = (VECTORS / v["stored"]).read_bytes()
            with self.subTest(v["name"]):
                got = cinch.open_value(stored, given(v), content=True)
                self.assertEqual(got, (VECTORS / v["content"]).read_bytes())
                with self.assertRaises(cinch.UnknownCodec):
                    cinch.open_value(stored, given(v))


class Damage(unittest.TestCase):
    def test_bit_flips(self):
        """A flipped bit behind the magic gives an error or the right value."""
        vectors = json.loads((VECTORS / "index.json").read_text())
        for v in vectors:
            if "error" in v or not v["name"].endswith("-order.json"):
                continue
            dictionaries = given(v)
            stored = (VECTORS / v["stored"]).read_bytes()
            value = (VECTORS / v["value"]).read_bytes()
            for bit in range(24, 8 * len(stored)):
                damaged = bytearray(stored)
                damaged[bit // 8] ^= 1 << bit % 8
                with self.subTest(v["name"], bit=bit):
                    try:
                        self.assertEqual(cinch.open_value(bytes(damaged), dictionaries), value)
                        self.assertFalse(dictionaries, "under a tag all damage is found")
                    except cinch.EnvelopeError:
                        pass

    def test_forged_is_not_decoded(self):
        """What has a wrong tag never reaches a decoder."""
        calls, decode = [], envelope._decode
        envelope._decode = lambda *args: calls.append(args) or decode(*args)
        try:
            for v in json.loads((VECTORS / "index.json").read_text()):
                if v.get("error") == "tag":
                    with self.subTest(v["name"]), self.assertRaisesRegex(cinch.Damaged, "tag"):
                        cinch.open_value((VECTORS / v["stored"]).read_bytes(), given(v))
        finally:
            envelope._decode = decode
        self.assertEqual(calls, [])


class FakeRedis:
    """Answers commands from a dict, with None or the exception that is there."""

    def __init__(self, answers):
        self.answers = answers

    def execute_command(self, *args):
        answer = self.answers.get(args, Exception("Function not found") if args[0] == "FCALL_RO" else None)
        if isinstance(answer, Exception):
            raise answer
        return answer


class FetchDictionary(unittest.TestCase):
    content = b"what values have in common"
    number = cinch.dictionary_number(content)
    call = ("FCALL_RO", f"cinch_dict_{number:08x}", 0)
    get = ("GET", f"cinch:dict:{number:08x}")

    def fetch(self, called, got=None):
        return store.fetch_dictionary(FakeRedis({self.call: called, self.get: got}), self.number)

    def test_found(self):
        self.assertEqual(self.fetch(base64.b64encode(self.content)), self.content)
        for error in ("Function not found", "unknown command 'FCALL_RO', with args beginning with: "):
            self.assertEqual(self.fetch(Exception(error), self.content), self.content)

    def test_archived(self):
        gone = Exception("Function not found")
        archived = ("FCALL_RO", f"cinch_archive_{self.number:08x}", 0)
        for answers in (
            {self.call: gone, archived: base64.b64encode(self.content)},
            {self.call: gone, archived: gone, ("GET", f"cinch:dict:archive:{self.number:08x}"): self.content},
        ):
            self.assertEqual(store.fetch_dictionary(FakeRedis(answers), self.number), self.content)

    def test_missing(self):
        for called, got in [
            (Exception("Function not found"), None),
            (Exception("Function not found"), b"another content"),
            (base64.b64encode(b"another content"), self.content),
        ]:
            with self.assertRaises(cinch.DictionaryMissing):
                self.fetch(called, got)

    def test_nobody_knows(self):
        with self.assertRaises(ConnectionError):
            self.fetch(ConnectionError("refused"), self.content)


if __name__ == "__main__":
    unittest.main()
