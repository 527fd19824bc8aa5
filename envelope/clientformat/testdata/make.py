"""Has GLIDE and django-redis write value.json, and keeps what then is in the server."""

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

value = Path("value.json").read_bytes()
port = int(os.environ["PORT"])
server = redis.Redis(port=port)
for name, backend in ("glide-zstd", CompressionBackend.ZSTD), ("glide-lz4", CompressionBackend.LZ4):
    client = GlideClient.create(
        GlideClientConfiguration(
            [NodeAddress("127.0.0.1", port)],
            compression=CompressionConfiguration(enabled=True, backend=backend),
        )
    )
    client.set(name, value)
    client.close()
    Path(name + ".bin").write_bytes(server.get(name))
for name, compressor in (
    ("zlib", ZlibCompressor),
    ("gzip", GzipCompressor),
    ("zstd", ZStdCompressor),
    ("lz4", Lz4Compressor),
    ("xz", LzmaCompressor),
):
    Path(f"{name}.bin").write_bytes(compressor({}).compress(value))
