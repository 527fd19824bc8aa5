"""Writes or checks values as applications do whose library compresses them.

    libraries.py LIBRARY PORT write|check|update FILE

FILE has the values, a JSON object by key. update writes each five times more, with a version in
front, and leaves the last; check then expects that: update's values are VERSION:value.
"""

import json
import sys
import time
from pathlib import Path


class Glide:
    """Valkey GLIDE, whose compression is an option of its client."""

    def __init__(self, backend, port):
        import glide_sync as g

        self.client = g.GlideClient.create(
            g.GlideClientConfiguration(
                [g.NodeAddress("127.0.0.1", port)],
                request_timeout=60_000,  # by itself it gives up after 250 ms, which a busy machine takes
                compression=g.CompressionConfiguration(
                    enabled=True, backend=getattr(g.CompressionBackend, backend)
                ),
            )
        )

    def set(self, key, value):
        self.client.set(key, value)

    def get(self, key):
        found = self.client.get(key)
        return None if found is None else found.decode()


class Django:
    """Django's cache by django-redis, with one of its compressors."""

    def __init__(self, compressor, port):
        from django.conf import settings

        settings.configure(
            CACHES={
                "default": {
                    "BACKEND": "django_redis.cache.RedisCache",
                    "LOCATION": f"redis://127.0.0.1:{port}",
                    "KEY_FUNCTION": "django_keys.bare",
                    "OPTIONS": {
                        "COMPRESSOR": f"django_redis.compressors.{compressor.lower()}.{compressor}Compressor",
                        "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
                    },
                }
            }
        )
        from django.core.cache import cache

        self.cache = cache

    def set(self, key, value):
        self.cache.set(key, value, None)

    def get(self, key):
        return self.cache.get(key)


LIBRARIES = {
    "glide-zstd": lambda port: Glide("ZSTD", port),
    "glide-lz4": lambda port: Glide("LZ4", port),
    "django-zlib": lambda port: Django("Zlib", port),
    "django-gzip": lambda port: Django("Gzip", port),
    "django-zstd": lambda port: Django("ZStd", port),
    "django-lz4": lambda port: Django("Lz4", port),
}
UPDATES = 5


def main(library, port, what, file):
    client = LIBRARIES[library](int(port))
    values = json.loads(Path(file).read_text())
    if what == "write":
        for key, value in values.items():
            client.set(key, value)
        return
    if what == "update":
        for version in range(1, UPDATES + 1):
            for key, value in values.items():
                client.set(key, f"{version}:{value}")
                time.sleep(0.0005)
        return
    versions = [f"{UPDATES}:" if what == "updated" else ""]
    for key, value in values.items():
        if (got := client.get(key)) not in [v + value for v in versions]:
            sys.exit(f"{key}: {got if got is None else got[:80]!r}, want {value[:80]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
