"""SET and GET of values by Valkey GLIDE; prints what that cost as JSON. See glide.go.

glide.py PORT off|lz4|zstd FILE, where FILE holds values, each behind its length in four bytes. Each line of
standard input, "set N" or "get N", is a step of N operations.
"""
import json
import struct
import sys
import time

from glide_sync import CompressionBackend, CompressionConfiguration, GlideClient, GlideClientConfiguration, NodeAddress

port, mode, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
data, values, at = open(path, "rb").read(), [], 0
while at < len(data):
    (n,) = struct.unpack_from("<I", data, at)
    values.append(data[at + 4 : at + 4 + n])
    at += 4 + n

compression = None
if mode != "off":
    compression = CompressionConfiguration(enabled=True, backend=CompressionBackend[mode.upper()])
client = GlideClient.create(GlideClientConfiguration([NodeAddress("127.0.0.1", port)], compression=compression))
keys = ["record:%d" % i for i in range(len(values))]
operations = {"set": lambda i: client.set(keys[i], values[i]), "get": lambda i: client.get(keys[i])}
done = {"set": 0, "get": 0}

for i, value in enumerate(values):  # all are there, and come back
    client.set(keys[i], value)
for i, value in enumerate(values):
    assert client.get(keys[i]) == value, i
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    name, n = line.split()
    operation, first, n = operations[name], done[name], int(n)
    done[name] += n
    cpu = time.process_time()
    for i in range(first, first + n):
        operation(i % len(values))
    print(json.dumps({"us": (time.process_time() - cpu) / n * 1e6}), flush=True)
client.close()
