"""Opens the frozen sessions of cinch-proto 2. Each message has a checksum of what must come out.

python3 -m unittest discover -t clients/python -s clients/python/tests -p test_proto.py
"""

import gzip
import pathlib
import unittest
from unittest import mock

from cinch import errors, proto

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "codec" / "proto" / "history" / "testdata"

# Limits of the sessions in VECTORS/limits, by how their names begin; codec/proto/history/check_test.go has the same ones.
LIMITS = {
    "small": {
        "MAX_NODES": 48, "MAX_SHAPES": 64, "MAX_RUNS": 256, "MAX_VALUES": 24, "MAX_ALL_BYTES": 3000, "MAX_LISTS": 12, "MAX_ALL_MEMBERS": 80,
        "MAX_RECORDS": 32, "MAX_ALL_RECORD_BYTES": 1 << 20, "MOST_GUESSES": 64, "MOST_LISTED": 64, "MOST_SERIES": 64,
    },
    "bytes": {
        "MAX_VALUES": 1 << 12, "MAX_ALL_BYTES": 4096, "MAX_LISTS": 1 << 10, "MAX_ALL_MEMBERS": 128,
        "MAX_RECORDS": 1 << 12, "MAX_ALL_RECORD_BYTES": 25 * (128 + 2048 + 36 * 512), "MOST_GUESSES": 128, "MOST_LISTED": 128, "MOST_SERIES": 256,
    },
}


def messages(path):
    data, at = gzip.decompress(path.read_bytes()), 0
    while at < len(data):
        n, at = proto.uvarint(data, at)
        yield data[at : at + n]
        at += n


class Sessions(unittest.TestCase):
    def test_vectors(self):
        paths = sorted(VECTORS.glob("*.session.gz"))
        self.assertGreater(len(paths), 10)
        for path in paths:
            with self.subTest(path.name):
                session = proto.Session()
                self.assertGreater(sum(len(session.open(sent)) for sent in messages(path)), 0)

    def test_small_limits(self):
        paths = sorted((VECTORS / "limits").glob("*.session.gz"))
        self.assertGreater(len(paths), 10)
        for path in paths:
            with self.subTest(path.name), mock.patch.multiple(proto, **LIMITS[path.name.split("-")[0]]):
                session = proto.Session()
                self.assertGreater(sum(len(session.open(sent)) for sent in messages(path)), 0)

    def test_damage(self):
        sent = list(messages(VECTORS / "scrapes.session.gz"))
        for first, second in ((None, sent[1]), (sent[0], sent[2]), (sent[0], sent[1][:-1] + b"!"), (sent[0], b"\x23"), (sent[0], b"\x11\0")):
            session = proto.Session()
            if first:
                session.open(first)
            for _ in range(2):
                with self.assertRaises(errors.Damaged):
                    session.open(second)
        with self.assertRaises(errors.TooLarge):
            proto.Session().open(sent[0], 10)


if __name__ == "__main__":
    unittest.main()
