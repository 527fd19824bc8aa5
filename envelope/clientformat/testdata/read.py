"""Has GLIDE and django-redis open what Append made, and compares."""

import os
from pathlib import Path

import redis
from django.conf import settings

settings.configure()

from django_redis.compressors.gzip import GzipCompressor  # noqa: E402
from django_redis.compressors.lz4 import Lz4Compressor  # noqa: E402
from django_redis.compressors.lzma import LzmaCompressor  # noqa: E402
from django_redis.compressors.zlib import ZlibCompressor  # noqa: E402
from django_redis.compressors.zstd import ZStdCompressor  # noqa: E402
from glide_sync import (  # noqa: E402
    CompressionBackend,
    CompressionConfiguration,
    GlideClient,
    GlideClientConfiguration,
    NodeAddress,
)

port = int(os.environ["PORT"])
server = redis.Redis(port=port)


def glide(backend):
    client = GlideClient.create(
        GlideClientConfiguration(
            [NodeAddress("127.0.0.1", port)],
            compression=CompressionConfiguration(enabled=True, backend=backend),
        )
    )

    def get(stored):
        server.set("key", stored)
        return client.get("key")

    return get


openers = {
    "glide-zstd": glide(CompressionBackend.ZSTD),
    "glide-lz4": glide(CompressionBackend.LZ4),
    "zlib": ZlibCompressor({}).decompress,
    "gzip": GzipCompressor({}).decompress,
    "zstd": ZStdCompressor({}).decompress,
    "lz4": Lz4Compressor({}).decompress,
    "xz": LzmaCompressor({}).decompress,
}
opened = 0
for path in sorted(Path(os.environ["FOREIGN_OUT"]).iterdir()):
    content, _, how = path.name.partition(".of.")
    get = openers.get(how.partition(".")[2])
    if get is None:
        continue
    if get(path.read_bytes()) != path.with_name(content).read_bytes():
        raise SystemExit(f"{path.name}: other bytes")
    opened += 1
print(f"{opened} values open in Python")
