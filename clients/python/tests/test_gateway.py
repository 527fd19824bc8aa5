"""A gateway and the library on one server: each reads what the other wrote, while dictionaries are trained and replaced."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import redis

import cinch
from cinch.redis import attach

from .servers import RedisServer

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIG = """
admin: {{listen: off}}
training: {{min_samples: 1500, interval: 50ms, poll: 50ms, drift: 15%, cpu: 99%}}
gateways:
  - {{name: g, protocol: redis, listen: "unix:{socket}", upstream: "redis://127.0.0.1:{port}", rules: [{{name: docs, key: "doc:*", setting: zstd-3, dictionary: auto}}]}}
"""


def order(r: random.Random) -> bytes:
    return b'{"order_id":"%08x","customer":{"id":%d,"tier":"%s"},"status":"%s","total":%d.%02d,"created_at":"2026-%02d-%02dT10:00:00Z"}' % (
        r.getrandbits(32), r.randrange(10**6), r.choice((b"gold", b"silver")), r.choice((b"shipped", b"pending", b"cancelled")),
        r.randrange(500), r.randrange(100), r.randrange(1, 13), r.randrange(1, 29),
    )  # fmt: skip


def reading(r: random.Random) -> bytes:
    return b'{"sensorSerial":"%08x","celsius":%d,"humidityPercent":%d,"battery":"discharging","building":"headquarters","measuredAtUnix":%d}' % (
        r.getrandbits(32), r.randrange(40), r.randrange(100), 1790000000 + r.randrange(10**7),
    )  # fmt: skip


class Gateway(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("go"):
            raise unittest.SkipTest("go is not installed, so there is no gateway")
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        subprocess.run(["go", "build", "-o", cls.directory + "/cinch", "./cmd/cinch"], cwd=ROOT, check=True)

    def setUp(self):
        self.server = RedisServer()
        self.addCleanup(self.server.stop)
        socket, config = self.directory + "/gateway", self.directory + "/cinch.yaml"
        pathlib.Path(config).write_text(CONFIG.format(socket=socket, port=self.server.port))
        log = open(self.directory + "/log", "wb")
        self.addCleanup(log.close)
        gateway = subprocess.Popen([self.directory + "/cinch", "serve", "--config", config], stderr=log)
        self.addCleanup(gateway.wait)
        self.addCleanup(gateway.terminate)
        self.through = redis.Redis(unix_socket_path=socket)
        self.addCleanup(self.through.close)
        self.library = attach(redis.Redis(port=self.server.port), refresh=0.05)
        self.addCleanup(self.library.close)
        while True:
            try:
                self.through.ping()
                return
            except redis.ConnectionError:
                self.assertIsNone(gateway.poll(), "the gateway has ended: " + self.directory + "/log")
                time.sleep(0.05)

    def dictionary_of(self, key: str) -> int:
        stored = self.server.plain().get(key)
        return cinch.parse_header(stored).dictionary if cinch.is_sealed(stored) else 0

    def write_until(self, make, dictionary_is, values: dict):
        """Writes by both, in turns, until both name another dictionary."""
        r = random.Random(make.__name__)
        for i in range(200_000):
            key, by = f"doc:{make.__name__}:{i}", (self.through, self.library)[i % 2]
            values[key] = make(r)
            by.set(key, values[key])
            if i % 500 == 499 and all(dictionary_is(self.dictionary_of(f"doc:{make.__name__}:{j}")) for j in (i, i - 1)):
                return self.dictionary_of(key)
        self.fail("no dictionary")

    def test_both(self):
        values, failures, ended = {}, [], threading.Event()

        def read(client):
            r = random.Random(1)
            while not ended.is_set():
                keys = r.sample(list(values), min(20, len(values)))
                try:
                    got = client.mget(keys) if keys else []
                    failures.extend(k for k, v in zip(keys, got) if v not in (values[k], None))
                except Exception as e:
                    failures.append(e)

        readers = [threading.Thread(target=read, args=(c,)) for c in (self.through, self.library)]
        for t in readers:
            t.start()
        try:
            first = self.write_until(order, lambda n: n != 0, values)
            self.write_until(reading, lambda n: n not in (0, first), values)
        finally:
            ended.set()
            for t in readers:
                t.join()
        self.assertEqual(failures, [])
        keys = list(values)
        for client in (self.through, self.library):
            for i in range(0, len(keys), 1000):
                part = keys[i : i + 1000]
                self.assertEqual(client.mget(part), [values[k] for k in part])


if os.environ.get("CI") and not shutil.which("go"):
    raise AssertionError("go is missing")

if __name__ == "__main__":
    unittest.main()
