"""redis-py's scripts in pipelines and transactions: one line a use with what came of it.

usage: scripts.py HOST PORT

A run against plain Redis and a run through the gateway have to print the same.
"""

import sys

import redis

TEXT = "a text that is long enough to be sealed; " * 12

client = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]), decode_responses=True)
measure = client.register_script("return {redis.call('STRLEN', KEYS[1]), redis.call('HSTRLEN', KEYS[2], 'f'), ARGV[1]}")
extend = client.register_script("local v = redis.call('GET', KEYS[1]) .. ARGV[1] redis.call('SET', KEYS[1], v) return #v")


def tell(what, act):
    client.set("s", TEXT)
    client.hset("h", "f", TEXT * 2)
    try:
        print(what, act(), client.strlen("s"))
    except redis.RedisError as err:
        print(what, type(err).__name__, err)


def queued(transaction, watched=None):
    with client.pipeline(transaction=transaction) as pipe:
        if watched:
            pipe.watch(watched)
            pipe.multi()
        pipe.set("before", TEXT)
        measure(keys=["s", "h"], args=["first"], client=pipe)
        extend(keys=["s"], args=["!"], client=pipe)
        pipe.get("s")
        return pipe.execute()


tell("in a transaction", lambda: queued(True))
tell("in a pipeline", lambda: queued(False))
tell("under WATCH", lambda: queued(True, "other"))
tell("alone", lambda: [measure(keys=["s", "h"], args=["alone"]), extend(keys=["s"], args=["?"])])
