"""redis-py with Cinch where there is more than one server: Redis Cluster, and Sentinel with a failover."""

import asyncio
import contextlib
import pathlib
import tempfile
import time
import unittest

import redis
import redis.asyncio.sentinel
import redis.sentinel

import cinch
from cinch.redis import attach

from .servers import RedisServer
from .test_redis import CONTENT, MENU, RULES


LONG = MENU * 4  # worth it without a dictionary too


def server(test, *arguments) -> RedisServer:
    s = RedisServer(*arguments)
    test.addCleanup(s.stop)
    return s


def agree(s: RedisServer):
    """What gateways leave in a server."""
    number = s.hold_dictionary(CONTENT).number
    s.publish("policy", 1, {"format": 1, "rules": RULES})
    s.publish("00112233aabbccdd", 1, {"rule": "menus", "current": {"dict": f"{number:08x}"}})
    return number


def until(condition):
    """Waits for what servers do by themselves; an error that clients are told meanwhile is no end of it."""
    last, end = None, time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if condition():
                return
        except redis.RedisError as e:
            last = e
        time.sleep(0.05)
    raise AssertionError(f"never came true; the last error: {last}")


async def until_async(condition):
    """The same where what is waited for is to be awaited."""
    last, end = None, time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if await condition():
                return
        except redis.RedisError as e:
            last = e
        await asyncio.sleep(0.05)
    raise AssertionError(f"never came true; the last error: {last}")


class Cluster(unittest.TestCase):
    def setUp(self):
        self.nodes = [server(self, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000") for _ in range(2)]
        first, second = (node.plain() for node in self.nodes)
        first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        second.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        first.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[1].port)
        for node in (first, second):
            until(lambda: node.cluster("INFO")["cluster_state"] == "ok")
        self.number = [agree(node) for node in self.nodes][0]

    def test_values_on_all_nodes(self):
        r = attach(redis.RedisCluster("127.0.0.1", self.nodes[0].port))
        self.addCleanup(r.close)
        keys = [f"menu:{i}" for i in range(20)]
        for key in keys[:10]:
            r.set(key, MENU)
        with r.pipeline() as p:
            for key in keys[10:]:
                p.set(key, MENU)
            p.execute()
        self.assert_sealed_on_all_nodes(self.number)
        self.assertEqual([r.get(key) for key in keys], [MENU] * 20)
        self.assertEqual(r.mget_nonatomic(keys), [MENU] * 20)

    def assert_sealed_on_all_nodes(self, number: int):
        for node in self.nodes:
            there = node.plain().keys("menu:*")
            self.assertTrue(there, "each node has some")
            for key in there:
                stored = node.plain().get(key)
                self.assertEqual(cinch.parse_header(stored).dictionary, number)

    def replace_dictionary(self, check):
        """Calls check with the number that new values are to name: before a dictionary is replaced, while one primary lacks the next, and after."""
        first, second = self.nodes
        check(self.number)
        number = first.hold_dictionary(CONTENT + MENU).number
        first.publish("00112233aabbccdd", 2, {"rule": "menus", "current": {"dict": f"{number:08x}"}})
        check(0)
        second.hold_dictionary(CONTENT + MENU)
        check(number)

    def test_dictionaries_that_all_primaries_have(self):
        def check(number):
            r = attach(redis.RedisCluster("127.0.0.1", self.nodes[0].port))
            with contextlib.closing(r):
                for i in range(20):
                    r.set(f"menu:{i}", LONG)
                self.assertEqual(r.get("menu:1"), LONG)
            self.assert_sealed_on_all_nodes(number)

        self.replace_dictionary(check)

    def test_a_dictionary_that_another_primary_has(self):
        r = attach(redis.RedisCluster("127.0.0.1", self.nodes[0].port))
        self.addCleanup(r.close)
        dictionary = self.nodes[0].hold_dictionary(CONTENT + MENU)
        keys = [f"raw:{i}" for i in range(20)]
        for key in keys:
            r.set(key, "")
        for node in self.nodes:
            for key in node.plain().keys("raw:*"):
                node.plain().set(key, cinch.seal_value(MENU, dictionary=dictionary))
        self.assertEqual({r.get(key) for key in keys}, {MENU})

    def test_a_dictionary_that_nobody_has(self):
        r = attach(redis.RedisCluster("127.0.0.1", self.nodes[0].port))
        self.addCleanup(r.close)
        with contextlib.closing(redis.RedisCluster("127.0.0.1", self.nodes[0].port)) as plain:
            plain.set("raw:1", cinch.seal_value(MENU, dictionary=cinch.Dictionary(MENU)))
        with self.assertRaises(cinch.DictionaryMissing):
            r.get("raw:1")

    def test_asyncio(self):
        async def run():
            async with attach(redis.asyncio.RedisCluster(host="127.0.0.1", port=self.nodes[0].port)) as r:
                keys = [f"menu:{i}" for i in range(20)]
                for key in keys[:10]:
                    await r.set(key, MENU)
                pipeline = r.pipeline()
                for key in keys[10:]:
                    pipeline.set(key, MENU)
                await pipeline.execute()
                self.assert_sealed_on_all_nodes(self.number)
                self.assertEqual([await r.get(key) for key in keys], [MENU] * 20)
                self.assertEqual(await asyncio.gather(*map(r.get, keys)), [MENU] * 20)
                with self.assertRaises(cinch.Refused):
                    await r.append("menu:1", "x")
                self.assertEqual(await r.get("menu:1"), MENU)

        asyncio.run(run())

    def test_asyncio_and_dictionaries_that_all_primaries_have(self):
        async def check(number):
            async with attach(redis.asyncio.RedisCluster(host="127.0.0.1", port=self.nodes[0].port, decode_responses=True)) as r:
                for i in range(20):
                    await r.set(f"menu:{i}", LONG)
                self.assertEqual(await r.get("menu:1"), LONG.decode())
            self.assert_sealed_on_all_nodes(number)

        self.replace_dictionary(lambda number: asyncio.run(check(number)))


class Sentinel(unittest.TestCase):
    def setUp(self):
        self.primary = server(self)
        self.number = agree(self.primary)
        self.replica = server(self, "--replicaof", f"127.0.0.1 {self.primary.port}")
        until(lambda: self.replica.plain().info("replication")["master_link_status"] == "up")
        config = pathlib.Path(tempfile.mkdtemp()) / "sentinel.conf"
        config.write_text(f"sentinel monitor m 127.0.0.1 {self.primary.port} 1\nsentinel down-after-milliseconds m 500\n")
        self.sentinel = server(self, str(config), "--sentinel")
        self.address = ("127.0.0.1", self.sentinel.port)
        found = redis.sentinel.Sentinel([self.address])
        until(lambda: found.sentinels[0].sentinel_slaves("m"))

    def test_a_failover(self):
        manager = redis.sentinel.Sentinel([self.address])
        r, replica = attach(manager.master_for("m")), attach(manager.slave_for("m"))
        r.set("menu:1", MENU)
        self.assertEqual(cinch.parse_header(self.primary.plain().get("menu:1")).dictionary, self.number)
        r.wait(1, 0)
        self.assertEqual(replica.get("menu:1"), MENU)
        until(lambda: manager.sentinels[0].execute_command("SENTINEL", "FAILOVER", "m"))
        until(lambda: manager.discover_master("m")[1] == self.replica.port)
        until(lambda: r.set("menu:2", MENU) and self.replica.plain().get("menu:2"))  # the old primary takes writes for a moment
        self.assertEqual(cinch.parse_header(self.replica.plain().get("menu:2")).dictionary, self.number)
        self.assertEqual(r.get("menu:1"), MENU)

    def test_asyncio(self):
        async def run():
            manager = redis.asyncio.sentinel.Sentinel([self.address])
            async with attach(manager.master_for("m")) as r, attach(manager.slave_for("m")) as replica:
                await r.set("menu:1", MENU)
                await r.wait(1, 0)
                self.assertEqual(await r.get("menu:1"), MENU)
                self.assertEqual(await replica.get("menu:1"), MENU)
                self.primary.plain().shutdown(nosave=True)
                await until_async(lambda: r.set("menu:2", MENU))
                self.assertEqual(await r.get("menu:1"), MENU)
            for sentinel in manager.sentinels:
                await sentinel.aclose()

        asyncio.run(run())
        for key in ("menu:1", "menu:2"):
            self.assertEqual(cinch.parse_header(self.replica.plain().get(key)).dictionary, self.number)
