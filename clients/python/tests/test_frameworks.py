"""Django's caches and Celery's results over connections that seal and open."""

import os
import unittest

import redis

import cinch.redis

from .servers import RedisServer

try:
    import celery
    import django.conf
    import django.test
    from celery.contrib.testing.worker import start_worker
    from django.core.cache import caches
except ImportError:
    if os.environ.get("CI"):
        raise
    raise unittest.SkipTest("Django, django-redis and Celery are not installed: pip install './python[test]'") from None

RULE = {"name": "all", "key": "*", "types": ["string"], "min_size": 64, "min_gain": 0.1, "codec": "zstd", "level": 3}
PAGE = {"page": 7, "rows": [{"name": "Margherita", "price": n, "toppings": ["tomato", "mozzarella", "basil"]} for n in range(50)]}
POOL = "cinch.redis.ConnectionPool"


class Frameworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RedisServer()
        cls.addClassCleanup(cls.server.stop)
        cls.server.publish("policy", 1, {"format": 1, "rules": [RULE]})
        cls.server.plain().config_set("requirepass", "secret")
        cls.plain = cls.server.plain(password="secret")
        cls.addClassCleanup(cls.plain.close)
        cls.url = f"redis://127.0.0.1:{cls.server.port}"
        if not django.conf.settings.configured:
            django.conf.settings.configure()

    def stored(self, pattern):
        (key,) = self.plain.keys(pattern)
        return self.plain.get(key)

    def check_cache(self, settings):
        """A cache gives back what it was given, and its values are sealed in the store."""
        with django.test.override_settings(CACHES={"default": settings}):
            cache = caches.create_connection("default")
            cache.set("page:7", PAGE, 100)
            self.assertEqual(cache.get("page:7"), PAGE)
            self.assertTrue(cinch.is_sealed(self.stored("*page:7")))
            cache.set_many({"a": PAGE, "n": 5})
            self.assertEqual(cache.get_many(["a", "n", "nothing"]), {"a": PAGE, "n": 5})
            self.assertEqual(cache.incr("n"), 6)
            self.assertTrue(cache.add("b", PAGE))
            self.assertFalse(cache.add("b", 1))
            self.assertEqual(cache.get_or_set("b", None), PAGE)
            self.assertTrue(cache.delete("b"))
            cache.clear()
            cache.close()

    def test_django(self):
        url = self.url.replace("//", "//:secret@")
        self.check_cache({"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": url, "OPTIONS": {"pool_class": POOL}})

    def test_django_redis(self):
        """Its password reaches the pool only after that is made."""
        options = {"CONNECTION_POOL_CLASS": POOL, "PASSWORD": "secret"}
        self.check_cache({"BACKEND": "django_redis.cache.RedisCache", "LOCATION": self.url, "OPTIONS": options})

    def test_django_redis_that_waits_for_connections(self):
        # django-redis keeps pools by URL, so this is another one
        options = {"CONNECTION_POOL_CLASS": "cinch.redis.BlockingConnectionPool", "PASSWORD": "secret"}
        self.check_cache({"BACKEND": "django_redis.cache.RedisCache", "LOCATION": self.url.replace("127.0.0.1", "localhost"), "OPTIONS": options})

    def test_celery(self):
        backend = "cinch.celery:RedisBackend+redis://:secret@" + self.url.partition("//")[2]
        app = celery.Celery(broker="memory://", backend=backend)

        @app.task(name="rows")
        def rows(n):
            return PAGE["rows"] * n

        @app.task(name="count")
        def count(all_rows):
            return sum(map(len, all_rows))

        with start_worker(app, perform_ping_check=False, pool="solo"):
            result = rows.delay(2)
            self.assertEqual(result.get(timeout=60), PAGE["rows"] * 2)
            self.assertTrue(cinch.is_sealed(self.plain.get(f"celery-task-meta-{result.id}")))
            self.assertEqual(celery.chord([rows.s(1), rows.s(2)])(count.s()).get(timeout=60), 150)


class Forks(unittest.TestCase):
    def test_a_fork_while_another_thread_asks(self):
        """The child has no thread that would give the locks back."""
        server = RedisServer()
        self.addCleanup(server.stop)
        server.publish("policy", 1, {"format": 1, "rules": [RULE]})
        r = cinch.redis.attach(redis.Redis(port=server.port))
        keeper = r.connection_pool.connection_class.keeper
        with keeper._lock, keeper._asking:
            child = os.fork()
            if child == 0:
                r.set("page", "x" * 1000)
                os._exit(0 if cinch.is_sealed(server.plain().get("page")) else 1)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
