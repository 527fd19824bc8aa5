"""Celery with Redis as broker and result backend: one line a feature with what came of it."""

import json
import subprocess
import sys
import time
import uuid

import redis
from celery import Celery, chain, chord, group
from celery.result import AsyncResult

from shared import URL, digest, fill, look, menu, runs, tell

app = Celery("celery_driver", broker=URL, backend=URL)
app.conf.update(
    broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1, task_acks_late=True, result_extended=True, task_track_started=True,
    broker_transport_options={"priority_steps": list(range(10)), "queue_order_strategy": "priority"},
    worker_hijack_root_logger=False,
)
client = redis.Redis.from_url(URL)
COUNT = 40


@app.task
def look_at(i, text):
    assert text == menu(i)
    return {"i": i, "digest": look(client, i), "text": text}


@app.task
def echo(text):
    return text + "!"


@app.task
def note(name, due=0.0):
    client.rpush("app:order", name if time.time() >= due else name + " came early")


@app.task(bind=True, max_retries=5)
def retried(self, text):
    if self.request.retries < 2:
        raise self.retry(countdown=0.05, exc=ValueError(text))
    return self.request.retries


@app.task
def hopeless(text):
    raise RuntimeError(text)


@app.task
def total(parts):
    return sum(p["i"] for p in parts), [digest(p["text"]) for p in parts]


@app.task
def locked(name):
    """Read, change and write under a lock: nothing else keeps the count right."""
    with client.lock("app:lock", timeout=30, sleep=0.01):
        value = json.loads(client.get("app:locked"))
        value["count"] += 1
        client.set("app:locked", json.dumps(value))


def worker(*args):
    return subprocess.Popen([sys.executable, "-m", "celery", "-A", "celery_driver", "worker", "--pool", "threads", "--loglevel", "ERROR",
                             "--without-gossip", "--without-mingle", "--without-heartbeat", *args], stdout=sys.stderr)


def features():
    wait = {"timeout": 60, "interval": 0.01}
    results = group(look_at.s(i, menu(i)) for i in range(COUNT)).apply_async().get(**wait)
    assert [r["text"] for r in results] == [menu(i) for i in range(COUNT)]
    tell("once", [[r["digest"] for r in results], runs(client, COUNT)])

    large = menu(1) * 700
    got = echo.delay(large).get(**wait)
    tell("large", [len(got), digest(got), got == large + "!"])

    for t in [note.apply_async((f"delayed {n}", time.time() + d), countdown=d) for n, d in enumerate((1.2, 0.6, 0.1))]:
        t.get(**wait)
    tell("delayed", sorted(x.decode() for x in client.lrange("app:order", 0, -1)))

    t = retried.delay(menu(2))
    tell("retried", [t.get(**wait), t.state])
    t = hopeless.delay(menu(3))
    try:
        t.get(**wait)
    except RuntimeError as err:
        tell("failed", [t.state, digest(str(err)), str(err) == menu(3), AsyncResult(t.id, app=app).args == [menu(3)]])

    parts, texts = chord([look_at.s(i, menu(i)) for i in range(10)], total.s()).apply_async().get(**wait)
    tell("chord", [parts, texts])
    got = chain(echo.s(menu(4)), echo.s(), echo.s()).apply_async().get(**wait)
    tell("chain", [len(got), digest(got)])

    client.set("app:locked", json.dumps({"count": 0, "text": menu(5)}))
    group(locked.s(str(uuid.uuid4())) for _ in range(30)).apply_async().get(**wait)
    tell("locked", json.loads(client.get("app:locked"))["count"])
    t = echo.delay(menu(6))
    t.get(**wait)
    before = client.exists(f"celery-task-meta-{t.id}")
    t.forget()
    tell("forgotten", [before, client.exists(f"celery-task-meta-{t.id}")])


def priorities():
    """The worker of this queue starts when all is queued."""
    client.delete("app:order")
    tasks = [note.apply_async((name,), queue="prio", priority=p) for name, p in (("low", 9), ("middle", 5), ("high", 0), ("high too", 0), ("lower", 7))]
    w = worker("-c", "1", "-Q", "prio", "-n", "prio@%h")
    try:
        for t in tasks:
            t.get(timeout=60)
    finally:
        w.terminate()
        w.wait(60)
    tell("priorities", [x.decode() for x in client.lrange("app:order", 0, -1)])


def main():
    fill(client, COUNT)
    w = worker("-c", "4", "-n", "main@%h")
    try:
        features()
    finally:
        w.terminate()
        w.wait(60)
    priorities()
    tell("unacknowledged", [client.hlen("unacked"), client.zcard("unacked_index")])


if __name__ == "__main__":
    main()
