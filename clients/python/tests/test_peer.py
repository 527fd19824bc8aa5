"""Reads the frozen links of internal/gateway/peer/link/testdata with an implementation of its own.

python3 -m unittest discover -t clients/python -s clients/python/tests -p test_peer.py
"""

import json
import pathlib
import unittest

from cinch import errors

from . import peer

TESTDATA = pathlib.Path(__file__).resolve().parents[3] / "internal" / "gateway" / "peer" / "link" / "testdata"
VECTORS = TESTDATA / "vectors.json"
GRANTED = 17  # log2 of the window that the reader's own hello grants


class Links(unittest.TestCase):
    def test_vectors(self):
        vectors = json.loads(VECTORS.read_text())
        self.assertGreater(len(vectors), 10)
        for v in vectors:
            with self.subTest(v["name"]):
                hello = peer.Hello(bytes.fromhex(v["hello"]))
                self.assertEqual((hello.lowest, hello.highest, hello.window, hello.status), (1, 1, 17, 0))
                frames, link = bytes.fromhex(v["frames"]), peer.Link(GRANTED)
                if v.get("refuse"):
                    with self.assertRaises(errors.Damaged):
                        link.read(frames)
                    continue
                self.assertEqual(link.read(frames), bytes.fromhex(v.get("bytes", "")))
                self.assertTrue(link.ended)

    def test_extensions(self):
        vectors = {v["name"]: v for v in json.loads(VECTORS.read_text())}
        hello = peer.Hello(bytes.fromhex(vectors["history"]["hello"]))
        self.assertEqual(hello.extensions, {200: b"from later", 1: b"\x01"})

    def test_hellos(self):
        good = bytes.fromhex(json.loads(VECTORS.read_text())[0]["hello"])
        for at, value in ((0, 1), (8, 2), (9, 0), (10, 15), (10, 24), (13, 0), (14, 1)):
            with self.subTest(at=at, value=value), self.assertRaises(errors.Damaged):
                peer.Hello(good[:at] + bytes([value]) + good[at + 1 :])

    def test_keys(self):
        vectors = json.loads((TESTDATA / "keys.json").read_text())
        self.assertGreater(len(vectors), 10)
        for v in vectors:
            with self.subTest(v["name"]):
                key, near, far, frame = (bytes.fromhex(v[name]) for name in ("key", "near", "far", "proof"))
                self.assertEqual(peer.far_proves(key, near, far), v.get("refuse") != "far")
                if v.get("refuse") != "far":
                    self.assertEqual(peer.near_proves(key, near, far, frame), v.get("refuse") != "near")


if __name__ == "__main__":
    unittest.main()
