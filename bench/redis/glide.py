"""SET and GET of values by Valkey GLIDE; prints what that cost as JSON. See glide.go.

glide.py PORT off|lz4|zstd FILE OPERATIONS, where FILE holds values, each behind its length in four bytes
"""
import json
import struct
import sys
import time

from glide_sync import CompressionBackend, CompressionConfiguration, GlideClient, GlideClientConfiguration, NodeAddress

port, mode, path, operations = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
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


def cost(operation):
    cpu = time.process_time()
    for i in range(operations):
        operation(i % len(values))
    return (time.process_time() - cpu) / operations * 1e6


for i, value in enumerate(values):  # all are there, and come back
    client.set(keys[i], value)
for i, value in enumerate(values):
    assert client.get(keys[i]) == value, i
print(json.dumps({"phase": "ready"}), flush=True)
sys.stdin.readline()
print(json.dumps({"set": cost(lambda i: client.set(keys[i], values[i]))}), flush=True)
sys.stdin.readline()
print(json.dumps({"get": cost(lambda i: client.get(keys[i]))}), flush=True)
sys.stdin.readline()
client.close()
