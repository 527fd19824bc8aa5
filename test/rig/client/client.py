"""SET and GET of values by clients for Python; says what that cost. client.go has the protocol.

client.py PORT MODE FILE, with a MODE of glide-off, glide-lz4, glide-zstd (Valkey GLIDE), django or django-zstd (django-redis).
"""
import json
import struct
import sys
import time


def glide(port, backend):
    from glide_sync import CompressionBackend, CompressionConfiguration, GlideClient, GlideClientConfiguration, NodeAddress

    compression = None
    if backend != "off":
        compression = CompressionConfiguration(enabled=True, backend=CompressionBackend[backend.upper()])
    client = GlideClient.create(GlideClientConfiguration([NodeAddress("127.0.0.1", port)], compression=compression))
    return client.set, client.get


def django(port, backend):
    import django.conf
    from django.core.cache import caches

    options = {"COMPRESSOR": "django_redis.compressors.zstd.ZStdCompressor"} if backend == "zstd" else {}
    cache = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": "redis://127.0.0.1:%d" % port,
        "KEY_FUNCTION": lambda key, prefix, version: key,  # the same keys as everybody's
        "TIMEOUT": None,
        "OPTIONS": options,
    }
    django.conf.settings.configure(CACHES={"default": cache})
    return caches["default"].set, caches["default"].get


def read(path):
    data, values, at = open(path, "rb").read(), [], 0
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        values.append(data[at + 4 : at + 4 + n])
        at += 4 + n
    return values


def say(answer):
    print(json.dumps(answer), flush=True)


port, (library, _, backend), values = int(sys.argv[1]), sys.argv[2].partition("-"), read(sys.argv[3])
put, fetch = {"glide": glide, "django": django}[library](port, backend)
keys = ["record:%d" % i for i in range(len(values))]


def set_one(i):
    put(keys[i], values[i])


def get_one(i):
    if fetch(keys[i]) != values[i]:
        sys.exit("%s comes back different" % keys[i])


operations = {"set": set_one, "get": get_one}
done = {"set": 0, "get": 0}
for operation in operations.values():  # all are there, and come back
    for i in range(len(values)):
        operation(i)
say({"ready": True})
for line in sys.stdin:
    name, n = line.split()
    operation, first, n = operations[name], done[name], int(n)
    done[name] += n
    cpu = time.process_time()
    for i in range(first, first + n):
        operation(i % len(values))
    say({"us": (time.process_time() - cpu) / n * 1e6})
