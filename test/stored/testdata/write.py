#!/usr/bin/env python3
"""Writes what the tests of package stored read, with the program of an earlier version.

    write.py PROGRAM DIRECTORY SERVERS

SERVERS is scripts/servers. Values are random, but always the same; the dictionaries are not.
"""
import base64, json, os, random, re, shutil, signal, socket, subprocess, sys, textwrap, time
import urllib.request, zlib

program, out, servers = map(os.path.abspath, sys.argv[1:4])
rng = random.Random(10)
os.makedirs(out, exist_ok=True)
work = os.path.join("/tmp", "cinch-stored-%d" % os.getpid())
os.makedirs(work)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def reading():
    r = rng.randrange
    return ('{"device":"thermo-%06d","tenant":"acme-industries","unit":"celsius","value":%d.%02d,"battery_percent":%d,'
            '"firmware":"4.2.%d","site":{"country":"DE","plant":"north-%d","line":%d},"status":"OPERATIONAL",'
            '"at":"2026-11-%02dT%02d:%02d:%02dZ"}') % (
        r(10**6), r(90), r(100), r(100), r(12), r(9), r(20), 1 + r(28), r(24), r(60), r(60))


def text():
    return " ".join(rng.choice("a tired operator reads this line only once and finds what is stored".split())
                    for _ in range(60))


class Redis:
    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port))
        self.f = self.s.makefile("rb")

    def reply(self):
        line = self.f.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            if rest == b"-1":
                return None
            body = self.f.read(int(rest) + 2)[:-2]
            return body
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def do(self, *args):
        args = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        self.s.sendall(b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args))
        return self.reply()


def start(kind, *args):
    line = subprocess.check_output([servers, "start", kind, "--", *args], text=True)
    return int(re.search(r"port=(\d+)", line)[1]), re.search(r"dir=(\S+)", line)[1]


def stop(directory):
    subprocess.check_call([servers, "stop", directory])


def cinch(*args, code=0):
    done = subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print("$ cinch", *args, "->", done.returncode, done.stdout[-400:], done.stderr[-400:], file=sys.stderr)
    if code is not None and done.returncode != code:
        sys.exit("cinch %s" % " ".join(args))
    return done.stdout


def serve(name, config):
    file = os.path.join(work, name + ".yaml")
    with open(file, "w") as f:
        f.write(config)
    log = open(os.path.join(work, name + ".log"), "w")
    cinch("config", "check", file)
    return subprocess.Popen([program, "serve", "--config", file], stdout=log, stderr=log)


def wait(what, ok):
    for _ in range(1200):
        try:
            if ok():
                return
        except (OSError, RuntimeError):
            pass
        time.sleep(0.1)
    sys.exit("not in time: %s; see %s" % (what, work))


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def b64(v):
    return base64.b64encode(v if isinstance(v, bytes) else v.encode()).decode()


RULES = """\
- {name: readings, key: "reading:*", type: [string, hash, stream], setting: zstd-3, dictionary: auto}
- {name: django, key: "django:*", setting: zstd-3, format: django}
- {name: snappy, key: "snappy:*", setting: snappy}
- {name: s2, key: "s2:*", setting: s2-1}
- {name: minlz, key: "minlz:*", setting: minlz-1}
- {name: lz4, key: "lz4:*", setting: lz4}
- {name: zlib, key: "zlib:*", setting: zlib-6}
- {name: rest, type: [string, hash, stream], setting: zstd-3}
"""
TUPLE_RULES = """\
- {name: body, space: docs, field: body, setting: zstd-3, dictionary: auto}
- {name: note, space: docs, field: note, setting: zstd-3, dictionary: auto}
- {space: lz4, field: body, setting: lz4}
- {space: s2, field: body, setting: s2-1}
- {space: minlz, field: body, setting: minlz-1}
- {space: zlib, field: body, setting: zlib-6}
- {space: snappy, field: body, setting: snappy}
- {space: zstd, field: body, setting: zstd-3}
"""


TOKEN = "a token of a test"


def configuration(protocol, listen, url, admin, rules, more=""):
    token = os.path.join(work, "token")
    with open(token, "w") as f:
        f.write(TOKEN)
    os.chmod(token, 0o600)
    return ("training: {min_samples: 200, poll: 50ms, interval: 1s, cpu: 99%%}\n"
            'admin: {listen: "127.0.0.1:%d", token_file: %s}\n%s'
            "gateways:\n  - name: test\n    protocol: %s\n"
            '    listen: "127.0.0.1:%d"\n    upstream: "%s"\n    pack: {background: true, mode: estimate}\n    rules:\n%s') % (
        admin, token, more, protocol, listen, url, textwrap.indent(rules, "      "))


def write_file(text, *path):
    with open(os.path.join(out, *path), "w") as f:
        f.write(text)


def history(admin):
    return urllib.request.urlopen("http://127.0.0.1:%d/api/history?from=2m&to=10s&step=10s" % admin).read().decode()


def action(admin, name, body):
    ask = urllib.request.Request("http://127.0.0.1:%d/api/actions/%s" % (admin, name), data=json.dumps(body).encode(),
                                 headers={"Authorization": "Bearer " + TOKEN})
    return urllib.request.urlopen(ask).read()


def redis(name, functions):
    """A Redis with values of each kind, dictionaries in each state, records, and the published policy."""
    args = ["--dbfilename", "dump.rdb"] + ([] if functions else ["--rename-command", "FUNCTION", ""])
    port, directory = start("redis", *args)
    direct, listen, admin = Redis(port), free_port(), free_port()
    url = "redis://127.0.0.1:%d" % port
    direct.do("ACL", "SETUSER", "app", "on", ">password", "~*", "&*", "+@all")
    hist = os.path.join(work, name + "-history")
    gateway = serve(name, configuration("redis", listen, url, admin, RULES, "history: {path: %s}\n" % hist))
    wait("the gateway", lambda: Redis(listen).do("PING") == b"PONG")
    began = time.time()
    want = {"string": {}, "hash": {}, "stream": {}, "list": {}}

    def write(through, prefix, n, value):
        for i in range(n):
            v = value()
            want["string"]["%s:%d" % (prefix, i)] = b64(v)
            through.do("SET", "%s:%d" % (prefix, i), v)

    for login in ("", "app"):
        through = Redis(listen)
        if login:
            through.do("AUTH", login, "password")
        for i in range(1200):
            through.do("SET", "reading:train:%d" % i, reading())
        def sealed():
            through.do("SET", "reading:train:0", reading())
            v = direct.do("GET", "reading:train:0")
            return v[:3] == b"\xc1\xdd\xdc" and len(v) < 150
        wait("a dictionary", sealed)
        for i in range(1200):
            direct.do("DEL", "reading:train:%d" % i)
        prefix = "reading:" + (login or "default")
        write(through, prefix, 12, reading)
        fields = {"f%d" % i: reading() for i in range(6)}
        fields["n"] = "42"
        through.do("HSET", prefix + ":hash", *[x for kv in fields.items() for x in kv])
        want["hash"][prefix + ":hash"] = {k: b64(v) for k, v in fields.items()}
        entries = [reading() for _ in range(4)]
        for e in entries:
            through.do("XADD", prefix + ":stream", "*", "body", e)
        want["stream"][prefix + ":stream"] = [b64(e) for e in entries]
    through = Redis(listen)
    for prefix in ("snappy", "s2", "minlz", "lz4", "zlib", "zstd"):
        write(through, prefix, 3, text)
    write(through, "django", 3, lambda: zlib.compress(text().encode()))
    write(through, "magic", 2, lambda: b"\xc1\xdd\xdc" + text().encode())
    write(through, "lock", 1, text)
    for i in range(5):
        through.do("INCR", "counter")
    want["string"]["counter"] = b64("5")
    direct.do("SET", "plain:before", "stored without Cinch")
    want["string"]["plain:before"] = b64("stored without Cinch")
    items = [text() for _ in range(3)]
    through.do("RPUSH", "list", *items)
    want["list"]["list"] = [b64(i) for i in items]

    hands = by_hand(name, url)
    listed = json.loads(cinch("dict", "ls", url, "--json"))
    action(admin, "pack-pause", {"gateway": "test"})
    dest = os.path.join(out, name)
    os.makedirs(dest)
    write_file(RULES, name, "rules.yaml")
    if functions:
        time.sleep(max(0, 55 - (time.time() - began)))
        past = history(admin)
        write_file(past, name, "history.json")
        period = json.loads(past)
        report = cinch("report", "127.0.0.1:%d" % admin, "--from", period["from"], "--to", period["to"], "--json")
        write_file(json.dumps({"rows": json.loads(report)["rows"]}, indent=1), name, "report.json")
    end(gateway)
    direct.do("SAVE")
    shutil.copy(os.path.join(directory, "dump.rdb"), dest)
    if functions:
        shutil.copytree(hist, os.path.join(dest, "history"))
        # A pass of the packer that is interrupted leaves its state.
        for i in range(3000):
            direct.do("SET", "later:%d" % i, text())
        state = os.path.join(work, "pack.state.json")
        pack = subprocess.Popen([program, "pack", url, "--rule", "key=later:*,setting=zstd-3", "--state", state] + PACK_SLOWLY)
        wait("a position", lambda: '"cursor": "' in open(state).read() and '"cursor": ""' not in open(state).read())
        pack.send_signal(signal.SIGINT)
        pack.wait()
        write_file(open(state).read().replace(str(port), "6379"), name, "pack.state.json")
    write_file(json.dumps({"values": want, "dictionaries": hands, "listed": listed}, indent=1), name, "values.json")
    stop(directory)


PACK_SLOWLY = ["--keys-per-second", "300"]


def by_hand(name, url):
    """Dictionaries that no rule has: one live, one retired, one archived. Returns their states by number."""
    hands = []
    for i in range(3):
        sample = os.path.join(work, "%s-sample-%d" % (name, i))
        os.makedirs(sample)
        for n in range(300):
            with open(os.path.join(sample, str(n)), "w") as f:
                f.write(reading().replace("thermo", "hygro-%d" % i))
        cinch("dict", "train", sample, "--size", "1KiB", "--out", sample + ".dict")
        hands.append(re.search(r"\b[0-9a-f]{8}\b", cinch("dict", "import", url, sample + ".dict"))[0])
    cinch("dict", "gc", url, hands[2], "--wait", "1s")
    gc = subprocess.Popen([program, "dict", "gc", url, hands[1], "--wait", "1h"], stderr=subprocess.PIPE, text=True)
    wait("the retirement", lambda: "retired" in cinch("dict", "ls", url))
    gc.send_signal(signal.SIGINT)
    gc.wait()
    return dict(zip(hands, ("live", "retired", "archived")))


def tarantool(name):
    """A Tarantool with values in several spaces, dictionaries in each state, records and the functions."""
    schema = os.path.join(work, "schema.lua")
    with open(schema, "w") as f:
        f.write("""for _, name in ipairs{'docs', 'lz4', 's2', 'minlz', 'zlib', 'snappy', 'zstd'} do
    local s = box.schema.space.create(name, {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}, {'note', 'scalar'}}})
    s:create_index('pk', {if_not_exists = true})
end
""")
    port, directory = start("tarantool", schema)
    url, listen, admin = "tarantool://127.0.0.1:%d" % port, free_port(), free_port()
    cinch("tarantool", "init", url)
    gateway = serve(name, configuration("tarantool", listen, url, admin, TUPLE_RULES))
    wait("the gateway", lambda: socket.create_connection(("127.0.0.1", listen)))
    want = {s: [[i, text(), "note %d" % i] for i in range(4)] for s in ("lz4", "s2", "minlz", "zlib", "snappy", "zstd")}
    want["docs"] = [[i, reading(), reading()] for i in range(16)]
    want["docs"].append([16, "\u00e9 short", "plain"])
    with open(os.path.join(work, "tuples.json"), "w") as f:
        json.dump({"train": [reading() for _ in range(1200)], "keep": want}, f)
    client = os.path.join(work, "client.lua")
    with open(client, "w") as f:
        f.write("""local json, fiber, net = require('json'), require('fiber'), require('net.box')
local f = io.open(arg[1]) local all = json.decode(f:read('*a')) f:close()
local through, direct = net.connect('127.0.0.1:' .. arg[2]), net.connect('127.0.0.1:' .. arg[3])
through:wait_connected(60) direct:wait_connected(60)
for i, body in ipairs(all.train) do through.space.docs:replace{1000 + i, body, body} end
for n = 1, 3000 do
    through.space.docs:replace{1000, all.train[n % 1000 + 1], all.train[n % 1000 + 1]}
    local t = direct.space.docs:get{1000}
    if #t[2] < 150 and #t[3] < 150 then break end
    assert(n < 3000, 'no dictionary')
    fiber.sleep(0.1)
end
for i = 1000, 1000 + #all.train do direct.space.docs:delete{i} end
for space, tuples in pairs(all.keep) do
    for _, t in ipairs(tuples) do through.space[space]:replace(t) end
end
os.exit(0)
""")
    subprocess.check_call(["tarantool", client, os.path.join(work, "tuples.json"), str(listen), str(port)])
    hands = by_hand(name, url)
    listed = json.loads(cinch("dict", "ls", url, "--json"))
    action(admin, "pack-pause", {"gateway": "test"})
    end(gateway)
    with open(os.path.join(work, "snapshot.lua"), "w") as f:
        f.write("local c = require('net.box').connect('127.0.0.1:' .. arg[1]) c:eval('box.snapshot()') os.exit(0)")
    subprocess.check_call(["tarantool", os.path.join(work, "snapshot.lua"), str(port)])
    dest = os.path.join(out, name)
    os.makedirs(dest)
    newest = max(n for n in os.listdir(directory) if n.endswith(".snap"))
    shutil.copy(os.path.join(directory, newest), os.path.join(dest, newest))
    write_file(TUPLE_RULES, name, "rules.yaml")
    write_file(json.dumps({"tuples": want, "dictionaries": hands, "listed": listed}, indent=1), name, "values.json")
    stop(directory)


IDENTITY = "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU" # of age's own tests
RECIPIENT = "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"


def recording(name):
    """An encrypted recording of a Redis, its identity, and the state of a replay."""
    dest = os.path.join(out, name)
    os.makedirs(dest)
    write_file(IDENTITY + "\n", name, "identity.txt")
    port, directory = start("redis")
    listen, file = free_port(), os.path.join(dest, "monday.cinchrec")
    record = subprocess.Popen([program, "record", "--redis", "127.0.0.1:%d=redis://127.0.0.1:%d" % (listen, port), "--to", file,
                               "--recipient", RECIPIENT, "--redact", "user:*", "--bound", "1m", "--exit", "--json"], stdout=subprocess.PIPE, text=True)
    wait("the recorder", lambda: Redis(listen).do("PING") == b"PONG")
    clients = [Redis(listen) for _ in range(2)]
    for i in range(110):
        for n, c in enumerate(clients):
            c.do("SET", "cart:%d:%d" % (n, i % 20), '{"cart":%d,"items":"%s"}' % (i, "noodles " * 8))
            c.do("GET", "cart:%d:%d" % (n, i % 20))
            c.do("HSET", "user:%d" % n, "token", "secret-%d" % i)
            c.do("HGETALL", "user:%d" % n)
        time.sleep(0.05)
    record.send_signal(signal.SIGINT)
    record.communicate()
    stop(directory)
    (a, adir), (b, bdir) = start("redis"), start("redis")
    state = os.path.join(work, "shadow.state.json")
    report = cinch("replay", file, "--identity", os.path.join(dest, "identity.txt"), "--control", "redis://127.0.0.1:%d" % a,
                   "--test", "redis://127.0.0.1:%d" % b, "--batch", "1s", "--baseline-only", "--self-test=false", "--json", "--state", state, code=None)
    print(report, file=sys.stderr)
    write_file(open(state).read().replace(str(a), "6379").replace(str(b), "6380"), name, "shadow.state.json")
    stop(adir)
    stop(bdir)


for step in sys.argv[4:] or ["redis", "redis-keys", "tarantool", "recording"]:
    {"tarantool": tarantool, "recording": recording}.get(step, lambda name: redis(name, name == "redis"))(step)
shutil.rmtree(work)
