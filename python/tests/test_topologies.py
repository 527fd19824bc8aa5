"""redis-py with Cinch where there is more than one server: Redis Cluster, and Sentinel with a failover."""

import asyncio
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
        for node in self.nodes:
            there = node.plain().keys("menu:*")
            self.assertTrue(there, "each node has some")
            for key in there:
                stored = node.plain().get(key)
                self.assertEqual(cinch.parse_header(stored).dictionary, self.number)
        self.assertEqual([r.get(key) for key in keys], [MENU] * 20)
        self.assertEqual(r.mget_nonatomic(keys), [MENU] * 20)


class Sentinel(unittest.TestCase):
    def setUp(self):
        self.primary = server(self)
        self.number = agree(self.primary)
        self.replica = server(self, "--replicaof", f"127.0.0.1 {self.primary.port}")
        until(lambda: self.replica.plain().info("replication")["master_link_status"] == "up")
        config = pathlib.Path(tempfile.mkdtemp()) / "sentinel.conf"
        config.write_text(f"sentinel monitor m 127.0.0.1 {self.primary.port} 1\n")
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
            async with attach(manager.master_for("m")) as r:
                await r.set("menu:1", MENU)
                answer = await r.get("menu:1")
            for sentinel in manager.sentinels:
                await sentinel.aclose()
            return answer

        self.assertEqual(asyncio.run(run()), MENU)
        self.assertEqual(cinch.parse_header(self.primary.plain().get("menu:1")).dictionary, self.number)
