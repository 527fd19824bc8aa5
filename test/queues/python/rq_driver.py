"""RQ: one line a feature with what came of it."""

import logging
import time
from datetime import timedelta

import redis
from rq import Callback, Queue, Retry, SimpleWorker
from rq.exceptions import DuplicateJobError
from rq.job import Job
from rq.group import Group

from shared import HOST, PORT, digest, fill, look, menu, runs, tell

client = redis.Redis(host=HOST, port=PORT)
COUNT = 30
logging.getLogger("rq").setLevel(logging.CRITICAL)


def look_at(i, text):
    assert text == menu(i)
    return {"i": i, "digest": look(client, i), "text": text}


def echo(text):
    return text + "!"


def note(name):
    client.rpush("app:order", name)
    return name


def fails_twice(text):
    if client.incr("app:tries") < 3:
        raise ValueError(text)
    return text


def hopeless(text):
    raise RuntimeError(text)


def after(job, connection, result):
    connection.rpush("app:order", "after " + digest(result))


def work(*queues, **options):
    SimpleWorker([Queue(q, connection=client) for q in queues], connection=client).work(burst=True, logging_level="CRITICAL", **options)


def order():
    names = [x.decode() for x in client.lrange("app:order", 0, -1)]
    client.delete("app:order")
    return names


def fresh(job):
    return Job.fetch(job.id, connection=client)


def main():
    from rq_driver import echo, fails_twice, hopeless, look_at, note, after  # by name, as workers do

    q = Queue(connection=client)
    fill(client, COUNT)
    with client.pipeline() as pipe:
        jobs = q.enqueue_many([Queue.prepare_data(look_at, (i, menu(i))) for i in range(COUNT)], pipeline=pipe)
        pipe.execute()
    work("default")
    results = [fresh(j).return_value() for j in jobs]
    assert [r["text"] for r in results] == [menu(i) for i in range(COUNT)]
    tell("once", [[r["digest"] for r in results], runs(client, COUNT), fresh(jobs[3]).args[1] == menu(3)])

    large = menu(1) * 700
    job = q.enqueue(echo, large)
    job.meta["text"] = menu(2)
    job.save_meta()
    work("default")
    got = fresh(job).return_value()
    tell("large", [len(got), digest(got), fresh(job).meta["text"] == menu(2), fresh(job).latest_result().return_value == got])

    job, bad = q.enqueue(fails_twice, menu(2), retry=Retry(max=3)), q.enqueue(hopeless, menu(3))
    work("default")
    tell("retried", [fresh(job).return_value() == menu(2), fresh(job).get_status(), fresh(bad).get_status(), menu(3) in fresh(bad).latest_result().exc_string])
    tell("failed", [bad.id in q.failed_job_registry, q.failed_job_registry.requeue(bad.id).get_status()])
    work("default")

    first = q.enqueue(note, "first")
    q.enqueue(note, "then", depends_on=first)
    q.enqueue(note, "front", at_front=True)
    Queue("low", connection=client).enqueue(note, "low")
    Queue("high", connection=client).enqueue(note, "high")
    work("high", "default", "low")
    tell("order", order())
    q.enqueue(echo, menu(4), on_success=Callback(after))
    work("default")
    tell("called back", order())

    def unique():
        return q.enqueue(note, "unique", job_id="unique", unique=True)

    unique()
    try:
        unique()
    except DuplicateJobError:
        tell("unique", q.count)
    work("default")
    order()

    for delay, name in ((0.6, "later"), (0.1, "sooner")):
        q.enqueue_in(timedelta(seconds=delay), note, name)
    waiting = q.scheduled_job_registry.count
    while q.scheduled_job_registry.count:
        time.sleep(0.3)
        move_due()
    work("default")
    tell("delayed", [waiting, sorted(order())])

    group = Group.create(connection=client)
    group.enqueue_many(queue=q, job_datas=[Queue.prepare_data(echo, (menu(i),)) for i in range(5)])
    work("default")
    tell("group", sorted(digest(j.return_value()) for j in group.get_jobs()))
    for i in range(5):
        q.enqueue(echo, menu(i))
    tell("emptied", [q.count, q.empty(), q.count])


def move_due():
    """A round of RQ's scheduler: it takes its lock by a script, and moves jobs that are due."""
    from rq.scheduler import RQScheduler

    scheduler = RQScheduler(["default"], client, interval=1, logging_level="CRITICAL")
    scheduler.acquire_locks()
    scheduler.prepare_registries()
    scheduler.enqueue_scheduled_jobs()
    scheduler.release_locks()


if __name__ == "__main__":
    main()
