"""HOST PORT LIBRARY PREFIX: works on keys of its own in a cluster, and knows what each command has to answer.

Lines of standard input direct it: "pause" has all workers finish what they do and answers "paused", "resume" has
them go on, "stop" has them read everything once more. A command that ends in an error may have been carried out or
not; all others count. Only commands that may be sent twice are used: clients of clusters repeat.
"""

import random
import sys
import threading
import time

HOST, PORT, LIBRARY, PREFIX = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
SCRIPT = "redis.call('SET',KEYS[1],ARGV[1]) return redis.call('STRLEN',KEYS[1])"
WORKERS = 2


class RedisPy:
    def __init__(self):
        from redis.cluster import RedisCluster

        self.c = RedisCluster(host=HOST, port=PORT, socket_timeout=10)

    def do(self, *args):
        return self.c.execute_command(*args)

    def script(self, key, value):
        return self.c.eval(SCRIPT, 1, key, value)

    def both(self, key, value):
        """Writes and reads in one pipeline."""
        with self.c.pipeline() as p:
            p.set(key, value).get(key).strlen(key)
            return p.execute()

    def nodes(self):
        return [f"{n.host}:{n.port}" for n in self.c.get_nodes()]


class Glide:
    def __init__(self):
        from glide_sync import GlideClusterClient, GlideClusterClientConfiguration, NodeAddress

        self.c = GlideClusterClient.create(GlideClusterClientConfiguration([NodeAddress(HOST, PORT)], request_timeout=10_000))

    def do(self, *args):
        return self.c.custom_command([a if isinstance(a, bytes) else str(a) for a in args])

    def script(self, key, value):
        from glide_sync import Script

        return self.c.invoke_script(Script(SCRIPT), keys=[key], args=[value])

    def both(self, key, value):
        from glide_sync import ClusterBatch

        batch = ClusterBatch(is_atomic=False).set(key, value).get(key).strlen(key)
        return self.c.exec(batch, raise_on_error=True)

    def nodes(self):
        return []


class Worker(threading.Thread):
    def __init__(self, client, name):
        super().__init__()
        self.client, self.name, self.random = client, name, random.Random(name)
        self.text, self.field, self.members, self.maybe = {None}, {None}, set(), set()
        self.done = self.unknown = self.members_tried = 0
        self.wrong = []
        self.state, self.changed = "run", threading.Condition()
        self.idle = False

    def run(self):
        while self.state != "stop" and not self.wrong:
            with self.changed:
                while self.state == "pause":
                    self.idle = True
                    self.changed.notify_all()
                    self.changed.wait()
                self.idle = False
            self.step()
        for _ in range(100):  # until the cluster answers again
            before = self.unknown
            self.check()
            if self.unknown == before:
                break
            time.sleep(0.2)
        else:
            self.wrong.append("nothing can be read at the end")
        with self.changed:
            self.idle = True
            self.changed.notify_all()

    def tell(self, state):
        with self.changed:
            self.state = state
            self.changed.notify_all()

    def await_idle(self):
        with self.changed:
            self.changed.wait_for(lambda: self.idle, timeout=60)

    def value(self):
        return f"{self.random.getrandbits(64)}:" + "hello, sealed world; " * self.random.randint(1, 60)

    def try_to(self, act):
        """Returns (whether it is known what happened, the answer)."""
        self.done += 1
        try:
            return True, act()
        except Exception as err:
            text = f"{type(err).__name__} {err}"
            self.unknown += 1
            time.sleep(0.05)
            if "cinch" in text:
                self.wrong.append(text)
            return False, None

    def wrote(self, may, known, value):
        return {value} if known else may | {value}

    def expect(self, what, got, want):
        if got != want:
            self.wrong.append(f"{self.name}: {what}: {got!r:.100}, not {want!r:.100}")

    def step(self):
        k, h, s, v = self.name + "k", self.name + "h", self.name + "s", self.value()
        turn = self.random.randrange(9)
        if turn < 2:
            known, _ = self.try_to(lambda: self.client.do("SET", k, v))
            self.text = self.wrote(self.text, known, v)
        elif turn == 2:
            known, _ = self.try_to(lambda: self.client.do("HSET", h, "f", v, "n", 1))
            self.field = self.wrote(self.field, known, v)
        elif turn == 3:
            known, n = self.try_to(lambda: self.client.script(k, v))
            self.text = self.wrote(self.text, known, v)
            if known:
                self.expect("the script", n, len(v))
        elif turn == 4:
            known, got = self.try_to(lambda: self.client.both(k, v))
            self.text = self.wrote(self.text, known, v)
            if known:
                self.expect("the pipeline", got[1:], [v.encode(), len(v)])
        elif turn == 5:
            known, _ = self.try_to(lambda: self.client.do("SETRANGE", k, 3, "****"))
            changed = {(x[:3] + "****" + x[7:]) if x else "\0\0\0****" for x in self.text}
            self.text = changed if known else self.text | changed
        elif turn == 6:
            self.members_tried += 1
            member = f"{self.members_tried}"
            known, _ = self.try_to(lambda: self.client.do("SADD", s, member))
            (self.members if known else self.maybe).add(member)
        else:
            self.check()

    def check(self):
        k, h, s = self.name + "k", self.name + "h", self.name + "s"
        self.text = self.narrow("the string", self.text, *self.try_to(lambda: self.client.do("GET", k)))
        self.field = self.narrow("the field", self.field, *self.try_to(lambda: self.client.do("HGET", h, "f")))
        known, n = self.try_to(lambda: self.client.do("STRLEN", k))
        if known and n not in {len(x or "") for x in self.text}:
            self.wrong.append(f"{self.name}: STRLEN {n}, not of {len(self.text)} that it may be")
        known, got = self.try_to(lambda: self.client.do("SMEMBERS", s))
        if known:
            got = {m.decode() for m in got}
            if not self.members <= got or not got <= self.members | self.maybe:
                self.wrong.append(f"{self.name}: members are lost: {sorted(self.members - got)[:5]}, or invented: {sorted(got - self.members - self.maybe)[:5]}")

    def narrow(self, what, may, known, got):
        if not known:
            return may
        got = got.decode() if got is not None else None
        if got not in may:
            self.wrong.append(f"{self.name}: {what} is {got!r:.100}, none of {len(may)} that it may be, such as {next(iter(may))!r:.100}")
            return may
        return {got}


def main():
    client = RedisPy() if LIBRARY == "redis-py" else Glide()
    workers = [Worker(client, "{%s%d}" % (PREFIX, i)) for i in range(WORKERS)]
    for w in workers:
        w.start()
    print("ready", flush=True)
    for line in sys.stdin:
        order = line.strip()
        for w in workers:
            w.tell("run" if order == "resume" else order)
        if order in ("pause", "stop"):
            for w in workers:
                w.await_idle()
        print({"pause": "paused", "resume": "resumed", "stop": "stopped"}[order], flush=True)
        if order == "stop":
            break
    for w in workers:
        w.join()
    for node in client.nodes():
        print("node", node)
    for text in [text for w in workers for text in w.wrong]:
        print("wrong", text)
    print(f"done {sum(w.done for w in workers)} unknown {sum(w.unknown for w in workers)}", flush=True)


main()
