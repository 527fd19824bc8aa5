"""What needs no server: which values are never sealed, and commands that are wrong."""

import unittest

from cinch import commands
from cinch.policy import never_sealed


class NeverSealed(unittest.TestCase):
    def test_integers_and_what_looks_like_them(self):
        for value in (b"0", b"-5", b"123456", b"9223372036854775807", b"-9223372036854775808", b"HYLL\x01"):
            self.assertTrue(never_sealed(value), value)
        for value in (b"", b"-", b"--", b"--5", b"-----", b"-0", b"007", b"5-", b"+5", b" 5", b"5\n", b"9223372036854775808", b"HYL"):
            self.assertFalse(never_sealed(value), value)


class Wrong(unittest.TestCase):
    def test_the_server_says_so(self):
        for args in ((b"SET",), (b"SET", b"k"), (b"MSETEX",), (b"MSETEX", b"two", b"k", b"v"), (b"XADD", b"k", b"MAXLEN"), (b"HSETEX", b"k", b"FIELDS")):
            for value in commands.values(args):
                self.assertLess(value.at, len(args), args)


if __name__ == "__main__":
    unittest.main()
