"""Runs the shared scenario with redis-py and prints one line an operation.

usage: scenario.py HOST PORT RESP SCENARIO.json

A run against plain Redis and a run through the gateway have to print the same.
"""

import hashlib
import json
import sys
import threading
import time

import redis


class Values:
    """Turns the scenario's arguments into bytes."""

    def __init__(self, scenario):
        self.words = scenario["words"]
        self.named = scenario["values"]
        self.saved = {}

    def make(self, spec):
        if isinstance(spec, str):
            return spec.encode()
        if "hex" in spec and "gen" not in spec:
            return bytes.fromhex(spec["hex"])
        if "v" in spec:
            return self.make(self.named[spec["v"]])
        if "concat" in spec:
            return b"".join(self.make(s) for s in spec["concat"])
        if "saved" in spec:
            saved = self.saved.get(spec["saved"])
            return saved if isinstance(saved, bytes) else b"nothing was saved"
        return getattr(self, "gen_" + spec["gen"])(spec)

    def gen_repeat(self, spec):
        unit = bytes.fromhex(spec["hex"]) if "hex" in spec else spec["text"].encode()
        return (unit * (spec["len"] // len(unit) + 1))[: spec["len"]]

    def gen_random(self, spec):
        rand = generator(spec["seed"])
        return bytes(next(rand) for _ in range(spec["len"]))

    def gen_json(self, spec):
        rand = generator(spec["seed"])
        word = lambda: self.words[next(rand) % len(self.words)]
        out, size, i = ["["], 1, 0
        while size < spec["len"]:
            record = '{"id":%d,"name":"%s %s","city":"%s","score":%d,"tags":["%s","%s"]},' % (
                i, word(), word(), word(), next(rand), word(), word())
            out.append(record)
            size += len(record)
            i += 1
        return "".join(out).encode()[: spec["len"]]


def generator(state):
    """A linear congruential generator of bytes, the same in every language."""
    while True:
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        yield state >> 24


def show(x):
    """The byte-exact text of a reply."""
    if x is None:
        return "nil"
    if isinstance(x, bool):
        return "#" + str(x).lower()
    if isinstance(x, int):
        return ":%d" % x
    if isinstance(x, float):
        return ",%r" % x
    if isinstance(x, str):
        x = x.encode()
    if isinstance(x, (bytes, bytearray)):
        return show_bytes(bytes(x))
    if isinstance(x, dict):
        return "{" + ", ".join(sorted(show(k) + "=>" + show(v) for k, v in x.items())) + "}"
    if isinstance(x, (set, frozenset)):
        return "~[" + ", ".join(sorted(map(show, x))) + "]"
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(map(show, x)) + "]"
    if isinstance(x, Exception):
        return "!%s %s" % (type(x).__name__, x)
    return "?%s %r" % (type(x).__name__, x)


def show_bytes(b):
    if len(b) <= 48 and all(0x20 <= c < 0x7F for c in b):
        return '"%s"' % b.decode()
    if len(b) <= 24:
        return "hex:" + b.hex()
    return "sha256:%s/%d" % (hashlib.sha256(b).hexdigest(), len(b))


def pairs(x):
    if isinstance(x, dict):
        x = list(x.items())
    elif x and not isinstance(x[0], (list, tuple)):
        x = list(zip(x[::2], x[1::2]))
    return "{" + ", ".join(sorted(show(k) + "=>" + show(v) for k, v in x)) + "}"


NORMS = {
    None: show,
    "type": lambda x: type(x).__name__,
    "sign": lambda x: ":positive" if x > 0 else show(x),
    "count": lambda x: "count %d" % len(x),
    "sort": lambda x: "[" + ", ".join(sorted(map(show, x))) + "]",
    "pairs": pairs,
    "scan": lambda x: "[" + ", ".join(sorted(map(show, x[1]))) + "]",
    "scanpairs": lambda x: pairs(x[1]),
}


class Runner:
    def __init__(self, host, port, resp, scenario):
        self.options = dict(host=host, port=port, protocol=resp, socket_timeout=60)
        self.resp = resp
        self.values = Values(scenario)
        self.a = self.connect()
        self.b = self.connect()

    def connect(self):
        # One connection a client: SELECT is meant to stay.
        return redis.Redis(single_connection_client=True, **self.options)

    def call(self, client, args):
        try:
            return client.execute_command(*map(self.values.make, args))
        except redis.RedisError as e:
            return e

    def step(self, step):
        if "cmd" in step:
            reply = self.call(self.a, step["cmd"])
            if "save" in step:
                self.values.saved[step["save"]] = reply
            return show(reply) if isinstance(reply, Exception) else NORMS[step.get("norm")](reply)
        for kind in ("pipeline", "multi", "block", "subscribe", "track"):
            if kind in step:
                return show(getattr(self, kind)(step))
        raise ValueError("unknown step: %r" % step)

    def pipeline(self, step):
        p = self.a.pipeline(transaction=False)
        for args in step["pipeline"]:
            p.execute_command(*map(self.values.make, args))
        return p.execute(raise_on_error=False)

    def multi(self, step):
        p = self.a.pipeline(transaction=True)
        try:
            if "watch" in step:
                p.watch(*step["watch"])
                for args in step.get("meanwhile", []):
                    self.call(self.b, args)
                p.multi()
            for args in step["multi"]:
                p.execute_command(*map(self.values.make, args))
            return p.execute(raise_on_error=False)
        except redis.RedisError as e:
            return e
        finally:
            p.reset()

    def block(self, step):
        """Blocks a third connection, and lets the second one end that."""
        c, got = self.connect(), []
        thread = threading.Thread(target=lambda: got.append(self.call(c, step["block"])))
        thread.start()
        deadline = time.time() + 20
        while self.b.info("clients")["blocked_clients"] < 1 and time.time() < deadline:
            time.sleep(0.01)
        then = [self.call(self.b, args) for args in step["then"]]
        thread.join(60)
        c.close()
        return got + then

    def subscribe(self, step):
        c = self.connect()
        sub = c.pubsub()
        sub.subscribe(step["subscribe"])
        got = [self.message(sub)]
        for spec in step["publish"]:
            got.append(self.call(self.b, ["PUBLISH", step["subscribe"], spec]))
            got.append(self.message(sub))
        sub.unsubscribe(step["subscribe"])
        got.append(self.message(sub))
        sub.close()
        c.close()
        return got

    @staticmethod
    def message(sub):
        m = sub.get_message(timeout=20)
        return m and [m["type"], m["channel"], m["data"]]

    def track(self, step):
        """Reads a tracked key and collects the push that another connection's write causes."""
        c, pushes, got = self.connect(), [], []
        c.connection._parser.set_invalidation_push_handler(pushes.append)
        got.append(self.call(c, ["CLIENT", "TRACKING", "ON"]))
        for spec in step["values"]:
            got.append(self.call(c, ["GET", step["track"]]))
            got.append(self.call(self.b, ["SET", step["track"], spec]))
            deadline = time.time() + 20
            while not pushes and time.time() < deadline:
                self.call(c, ["PING"])  # pushes are read along with replies
            got.append(pushes[:])
            pushes.clear()
        got.append(self.call(c, ["GET", step["track"]]))
        c.close()
        return got


def expand(scenario, resp):
    """The steps, with each "each" spelled out."""
    for step in scenario["steps"]:
        if step.get("resp", resp) != resp:
            continue
        for name in scenario["groups"][step["each"]] if "each" in step else [""]:
            yield json.loads(json.dumps(step).replace("{}", name))


def main():
    host, port, resp, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with open(path, encoding="utf-8") as f:
        scenario = json.load(f)
    runner = Runner(host, port, resp, scenario)
    for step in expand(scenario, resp):
        print("%s\t%s" % (step["name"], runner.step(step)), flush=True)


if __name__ == "__main__":
    main()
