"""Dramatiq, whose broker is one script that builds its keys: one line a feature with what came of it."""

import logging
import time

import dramatiq
import redis
from dramatiq import group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as LimitBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from shared import HOST, PORT, URL, digest, fill, look, menu, runs, tell

logging.disable(logging.CRITICAL)
client = redis.Redis(host=HOST, port=PORT)
limits = LimitBackend(url=URL)
broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL), store_results=True))
broker.add_middleware(GroupCallbacks(limits))
dramatiq.set_broker(broker)
COUNT = 40
WAIT = {"block": True, "timeout": 60_000}


@dramatiq.actor
def look_at(i, text):
    assert text == menu(i)
    return {"i": i, "digest": look(client, i), "text": text}


@dramatiq.actor
def echo(text):
    return text + "!"


@dramatiq.actor
def note(name, due):
    client.rpush("app:order", name if time.time() >= due else name + " came early")


@dramatiq.actor(max_retries=5, min_backoff=20, max_backoff=50)
def retried(text):
    if client.incr("app:tries") < 3:
        raise ValueError(text)
    return text


@dramatiq.actor(max_retries=0)
def hopeless(text):
    raise RuntimeError(text)


@dramatiq.actor(queue_name="prio", priority=10)
def later():
    client.rpush("app:prio", "later")


@dramatiq.actor(queue_name="prio", priority=0)
def sooner():
    client.rpush("app:prio", "sooner")


@dramatiq.actor(max_retries=100, min_backoff=10, max_backoff=30)
def alone():
    """Reads, changes and writes: right only because the limiter lets in one at a time."""
    with ConcurrentRateLimiter(limits, "alone", limit=1).acquire():
        client.set("app:count", int(client.get("app:count") or 0) + 1)


def main():
    fill(client, COUNT)
    for actor in (later, later, sooner, sooner):
        actor.send()
    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=50)
    worker.start()
    messages = [look_at.send(i, menu(i)) for i in range(COUNT)]
    results = [m.get_result(**WAIT) for m in messages]
    assert [r["text"] for r in results] == [menu(i) for i in range(COUNT)]
    tell("once", [[r["digest"] for r in results], runs(client, COUNT)])

    large = menu(1) * 700
    got = echo.send(large).get_result(**WAIT)
    tell("large", [len(got), digest(got)])
    for m in [note.send_with_options(args=(f"delayed {d}", time.time() + d / 1000), delay=d) for d in (1200, 600, 100)]:
        m.get_result(**WAIT)
    tell("delayed", sorted(x.decode() for x in client.lrange("app:order", 0, -1)))
    tell("retried", [retried.send(menu(2)).get_result(**WAIT) == menu(2), int(client.get("app:tries"))])
    try:
        hopeless.send(menu(3)).get_result(**WAIT)
    except Exception as err:
        tell("failed", [type(err).__name__, menu(3) in str(err)])
    broker.join("prio", timeout=60_000)
    tell("priorities", sorted(x.decode() for x in client.lrange("app:prio", 0, -1)))
    got = pipeline([echo.message(menu(4)), echo.message(), echo.message()]).run().get_result(**WAIT)
    tell("pipeline", [len(got), digest(got)])
    got = group([echo.message(menu(i)) for i in range(8)]).run()
    tell("group", [digest(x) for x in got.get_results(**WAIT)])
    for m in [alone.send() for _ in range(8)]:
        m.get_result(**WAIT)
    tell("one at a time", int(client.get("app:count")))
    worker.stop()
    tell("left", [client.llen("dramatiq:default"), client.hlen("dramatiq:default.msgs"), client.hlen("dramatiq:default.XQ.msgs")])


main()
