"""redis-py with Cinch against a real server."""

import asyncio
import json
import threading
import unittest

import redis
import redis.asyncio
import redis.sentinel

import cinch
from cinch.redis import attach

from .servers import RedisServer

CONTENT = b'{"id": 1, "name": "Margherita", "price": 7.5, "available": true, "toppings": ["tomato", "mozzarella", "basil"]}' * 3
MENU = b'{"id": 77, "name": "Marinara", "price": 6.5, "available": true, "toppings": ["tomato", "garlic", "oregano"], "note": "seventy-seven"}'
RULES = [
    {"name": "notes", "key": "note:*", "types": ["string", "hash"], "min_size": 64, "min_gain": 0.1, "codec": "raw"},
    {"name": "peeled", "key": "web:*", "types": ["string", "hash"], "min_size": 1, "min_gain": 0.999999999, "codec": "zstd", "level": 1},
    {"name": "menus", "key": "menu:*", "types": ["string", "hash", "stream"], "min_size": 64, "min_gain": 0.1, "codec": "zstd", "level": 3, "record": "00112233aabbccdd"},
]


class WithServer(unittest.TestCase):
    def setUp(self):
        self.server = RedisServer()
        self.addCleanup(self.server.stop)
        self.plain = self.server.plain()
        self.addCleanup(self.plain.close)
        self.dictionary = self.server.hold_dictionary(CONTENT)
        self.server.publish("policy", 1, {"format": 1, "rules": RULES, "exclude": ["lock:*"]})
        self.server.publish("00112233aabbccdd", 1, {"rule": "menus", "current": {"dict": f"{self.dictionary.number:08x}"}})

    def client(self, **kwargs):
        r = attach(redis.Redis(port=self.server.port, **kwargs), **({"refresh": 0.0}))
        self.addCleanup(r.close)
        return r

    def assertStored(self, stored: bytes, value: bytes, number: int):
        self.assertTrue(cinch.is_sealed(stored), stored[:8])
        self.assertEqual(cinch.parse_header(stored).dictionary, number)
        self.assertLess(len(stored), len(value))
        self.assertEqual(cinch.open_value(stored, {number: self.dictionary}), value)


class Commands(WithServer):
    def test_strings(self):
        r, n = self.client(), self.dictionary.number
        r.set("menu:1", MENU)
        r.mset({"menu:2": MENU, "note:1": MENU, "other": MENU})
        r.setex("menu:3", 100, MENU)
        for key in ("menu:1", "menu:2", "menu:3"):
            self.assertStored(self.plain.get(key), MENU, n)
        for key in ("note:1", "other"):
            self.assertEqual(self.plain.get(key), MENU)
        self.assertEqual(r.mget("menu:1", "menu:2", "note:1", "nothing"), [MENU, MENU, MENU, None])
        self.assertEqual(r.getdel("menu:3"), MENU)

    def test_hashes_and_streams(self):
        for protocol in (2, 3):
            r, n = self.client(protocol=protocol), self.dictionary.number
            r.hset("menu:h", mapping={"a": MENU, "b": "short"})
            self.assertStored(self.plain.hget("menu:h", "a"), MENU, n)
            self.assertEqual(r.hgetall("menu:h"), {b"a": MENU, b"b": b"short"})
            entry = r.xadd("menu:s", {"m": MENU}, maxlen=10)
            self.assertStored(self.plain.xrange("menu:s", entry)[0][1][b"m"], MENU, n)
            self.assertEqual(r.xrange("menu:s", entry)[0][1], {b"m": MENU})

    def test_decoding(self):
        r = self.client(decode_responses=True)
        r.set("menu:1", MENU.decode())
        r.hset("menu:h", "a", MENU.decode())
        self.assertEqual((r.get("menu:1"), r.hgetall("menu:h")), (MENU.decode(), {"a": MENU.decode()}))

    def test_pipelines(self):
        r = self.client()
        for transaction in (False, True):
            with r.pipeline(transaction=transaction) as p:
                answers = p.set("menu:1", MENU).get("menu:1").incr("n").hset("menu:h", "a", MENU).hget("menu:h", "a").execute()
            self.assertEqual((answers[1], answers[4]), (MENU, MENU))
            self.assertStored(self.plain.get("menu:1"), MENU, self.dictionary.number)

    def test_what_is_never_sealed(self):
        r = self.client()
        r.set("menu:n", 123456)
        self.assertEqual(self.plain.incr("menu:n"), 123457)
        looks = b"\xc1\xdd\xdc looks like an envelope"
        for key in ("menu:1", "other"):
            r.set(key, looks)
            self.assertNotEqual(self.plain.get(key), looks)
            self.assertEqual(r.get(key), looks)

    def test_commands_that_compute(self):
        r = self.client()
        for act in (lambda: r.append("menu:1", "x"), lambda: r.strlen("menu:1"), lambda: r.hstrlen("menu:1", "f"), lambda: r.bitop("or", "menu:1", "menu:2")):
            with self.assertRaisesRegex(cinch.Refused, "menu:1"):
                act()
        self.assertEqual(r.append("other", "x"), 1)
        self.assertTrue(r.ping())  # the connection is as it was

    def test_rule_to_plain(self):
        """Gateways seal there and libraries don't: what computes could meet an envelope."""
        r = self.client()
        r.set("web:1", MENU * 10)
        r.hset("web:h", "f", MENU * 10)
        self.assertEqual((self.plain.get("web:1"), self.plain.hget("web:h", "f")), (MENU * 10, MENU * 10))
        for act in (lambda: r.append("web:1", "x"), lambda: r.strlen("web:1"), lambda: r.hstrlen("web:h", "f"), lambda: r.getrange("web:1", 0, 1)):
            with self.assertRaisesRegex(cinch.Refused, "web:"):
                act()

    def test_damaged(self):
        r = self.client()
        r.set("menu:1", MENU)
        stored = bytearray(self.plain.get("menu:1"))
        stored[-1] ^= 1
        self.plain.set("menu:1", bytes(stored))
        with self.assertRaises(cinch.Damaged):
            r.get("menu:1")
        self.assertTrue(r.ping())
        for transaction in (False, True):
            with r.pipeline(transaction=transaction) as p:
                with self.assertRaises(cinch.Damaged):
                    p.get("menu:1").get("other").execute()
            with r.pipeline(transaction=False) as p:
                answers = p.get("menu:1").echo("after").execute(raise_on_error=False)
                self.assertIsInstance(answers[0], cinch.Damaged)
                self.assertEqual(answers[1], b"after")
        with self.assertRaises(cinch.Damaged) as caught:
            r.getdel("menu:1")
        self.assertEqual(caught.exception.stored, bytes(stored))  # nothing is lost
        self.assertTrue(r.ping())


class Unsupported(unittest.TestCase):
    def test_what_has_no_pool(self):
        with self.assertRaisesRegex(TypeError, "is not supported: use"):
            attach(redis.sentinel.Sentinel([]))


class Dictionaries(WithServer):
    def test_rolls_over(self):
        r, old = self.client(), self.dictionary
        r.set("menu:1", MENU)
        self.dictionary = self.server.hold_dictionary(CONTENT + MENU)
        self.server.publish("00112233aabbccdd", 2, {"rule": "menus", "current": {"dict": f"{self.dictionary.number:08x}"}})
        r.set("menu:2", MENU)
        self.assertStored(self.plain.get("menu:2"), MENU, self.dictionary.number)
        self.assertEqual(cinch.parse_header(self.plain.get("menu:1")).dictionary, old.number)
        self.assertEqual(r.mget("menu:1", "menu:2"), [MENU, MENU])
        self.assertEqual(self.client().mget("menu:1", "menu:2"), [MENU, MENU])

    def test_retired(self):
        r, n = self.client(), self.dictionary.number
        name = f"cinch_retired_{n:08x}"
        self.plain.function_load(f"#!lua name={name}\nredis.register_function('{name}', function() return 1 end)\n")
        r.set("menu:1", MENU * 4)
        self.assertEqual(cinch.parse_header(self.plain.get("menu:1")).dictionary, 0)
        self.assertEqual(r.get("menu:1"), MENU * 4)

    def test_gone(self):
        self.client().set("menu:1", MENU)
        self.plain.function_delete(f"cinch_dict_{self.dictionary.number:08x}")
        with self.assertRaisesRegex(cinch.DictionaryMissing, f"{self.dictionary.number:08x}"):
            self.client().get("menu:1")

    def test_no_policy(self):
        self.plain.function_flush()
        r = self.client()
        r.set("menu:1", MENU)
        self.assertEqual((self.plain.get("menu:1"), r.get("menu:1")), (MENU, MENU))

    def test_later_format(self):
        self.server.publish("policy", 2, {"format": 2, "rules": [{"anything": "else"}]})
        self.client().set("menu:1", MENU)
        self.assertEqual(self.plain.get("menu:1"), MENU)

    def test_threads(self):
        r, failures = self.client(), []

        def work(i):
            for j in range(50):
                r.set(f"menu:{i}:{j}", MENU + b"%d" % j)
                if r.get(f"menu:{i}:{j}") != MENU + b"%d" % j:
                    failures.append((i, j))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])


class Asyncio(WithServer):
    def test_commands(self):
        async def run():
            r = attach(redis.asyncio.Redis(port=self.server.port), refresh=0.0)
            await r.set("menu:1", MENU)
            await r.hset("menu:h", "a", MENU)
            self.assertStored(self.plain.get("menu:1"), MENU, self.dictionary.number)
            self.assertEqual(await r.get("menu:1"), MENU)
            async with r.pipeline() as p:
                self.assertEqual(await p.get("menu:1").hgetall("menu:h").execute(), [MENU, {b"a": MENU}])
            with self.assertRaises(cinch.Refused):
                await r.append("menu:1", "x")
            await asyncio.gather(*(r.set(f"menu:{i}", MENU) for i in range(100)))
            self.assertEqual(await r.mget([f"menu:{i}" for i in range(100)]), [MENU] * 100)
            await r.aclose()

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
