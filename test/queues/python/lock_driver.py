"""redis-py's Lock: one line a feature with what came of it."""

import json
import threading

import redis
from redis.exceptions import LockError, LockNotOwnedError

from shared import HOST, PORT, menu, tell

client = redis.Redis(host=HOST, port=PORT)
LONG = "token " * 60  # long enough that a rule seals it: the scripts compare it


def count(rounds, token):
    mine = redis.Redis(host=HOST, port=PORT)
    for n in range(rounds):
        lock = mine.lock("app:lock", timeout=30, sleep=0.001)
        assert lock.acquire(token=f"{token}{n}")
        value = json.loads(mine.get("app:value"))
        value["count"] += 1
        mine.set("app:value", json.dumps(value))
        lock.release()


def refused(error, act):
    try:
        act()
    except error as err:
        return type(err).__name__
    return "nothing"


def main():
    client.set("app:value", json.dumps({"count": 0, "text": menu(1)}))
    threads = [threading.Thread(target=count, args=(25, f"{LONG}{i}")) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    tell("counted", json.loads(client.get("app:value"))["count"])

    lock = client.lock("app:lock", timeout=20)
    other = client.lock("app:lock", timeout=20, blocking=False)
    tell("taken", [lock.acquire(token=LONG), lock.owned(), lock.locked(), other.acquire(token="x" * 200), other.owned()])
    tell("extended", [lock.extend(10), 20 < client.ttl("app:lock") <= 30, lock.extend(40, replace_ttl=True), 30 < client.ttl("app:lock") <= 40])
    tell("reacquired", [lock.reacquire(), client.ttl("app:lock") <= 20, client.get("app:lock").decode() == LONG, client.strlen("app:lock")])
    client.set("app:lock", "somebody else's " * 20)
    tell("lost", [refused(LockNotOwnedError, lock.release), refused(LockError, lock.release), client.exists("app:lock")])
    client.delete("app:lock")
    tell("taken again", [other.acquire(token="y" * 300), other.release(), client.exists("app:lock")])
    short = client.lock("app:short", timeout=0.05)
    short.acquire(token=LONG)
    while client.exists("app:short"):
        pass
    tell("expired", [refused(LockError, short.release), refused(LockError, lambda: short.extend(1))])


main()
