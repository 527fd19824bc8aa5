"""Cinch for results of Celery that are kept in Redis: result_backend = "cinch.celery:RedisBackend+redis://cache".

Results are sealed as the gateways' policy says; celery-task-meta-* are their keys.
"""

from celery.backends import redis

from . import redis as ours


class RedisBackend(redis.RedisBackend):
    """Celery's own, over connections that seal and open."""

    ConnectionPool = ours.ConnectionPool
