"""Real servers for tests."""

import base64
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import unittest

import redis

from cinch import Dictionary
from cinch.dictionary import zstd

_RECORD = """#!lua name={name}
redis.register_function{{function_name = '{name}', description = {text}, flags = {{'no-writes'}}, callback = function() return {answer} end}}
"""


def _free_port() -> int:
    """One below those that the system gives to clients, with the one for a cluster's bus, which is 10000 higher."""
    while True:
        port = random.randrange(11000, 20000)
        try:
            with socket.socket() as s, socket.socket() as bus:
                s.bind(("127.0.0.1", port))
                bus.bind(("127.0.0.1", port + 10000))
            return port
        except OSError:
            pass  # somebody has it


class RedisServer:
    """A Redis server of the machine, on a port of its own."""

    def __init__(self, *arguments):
        program = shutil.which("redis-server")
        if not program:
            if os.environ.get("CI"):
                raise AssertionError("redis-server is missing: scripts/servers install")
            raise unittest.SkipTest("redis-server is not installed: scripts/servers install")
        self.directory = tempfile.mkdtemp()
        self.port = _free_port()
        self.process = subprocess.Popen(
            [program, *arguments, "--port", str(self.port), "--save", "", "--dir", self.directory], stdout=subprocess.DEVNULL
        )
        while True:
            try:
                self.plain().ping()
                break
            except redis.ConnectionError:
                if self.process.poll() is not None:
                    raise AssertionError("redis-server did not start") from None

    def plain(self, **kwargs):
        """A client that sees what is stored."""
        return redis.Redis(port=self.port, **kwargs)

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory)

    def hold_dictionary(self, content: bytes) -> Dictionary:
        """Stores a dictionary as gateways do."""
        d = Dictionary(content)
        text = base64.b64encode(zstd.compress(content)).decode()
        code = _RECORD.format(name=f"cinch_dict_{d.number:08x}", text="''", answer="0")
        self.plain().function_load(f"{code}-- zstd {len(content)} {text}\n", replace=True)
        return d

    def publish(self, name: str, version: int, document):
        """Publishes a record as gateways do."""
        quoted = f"[==[{json.dumps(document)}]==]"
        self.plain().function_load(_RECORD.format(name=f"cinch_rule_{name}_{version:016x}", text=quoted, answer="0"))
