"""HOST PORT: writes and reads through gateways to a cluster with redis-py."""

import sys

from redis.cluster import RedisCluster

client = RedisCluster(host=sys.argv[1], port=int(sys.argv[2]), decode_responses=True, read_from_replicas=False)
value = "hello, sealed world; " * 50
for i in range(400):
    client.set(f"py:{i}", value + str(i))
for i in range(0, 400, 4):
    assert client.append(f"py:{i}", "+") == len(value + str(i)) + 1
    client.set(f"py:{i}", value + str(i))
with client.pipeline() as pipe:
    for i in range(400):
        pipe.get(f"py:{i}")
        pipe.strlen(f"py:{i}")
    got = pipe.execute()
for i in range(400):
    assert got[2 * i] == value + str(i), i
    assert got[2 * i + 1] == len(value + str(i)), i
assert client.eval("return redis.call('STRLEN',KEYS[1])", 1, "py:7") == len(value) + 1
assert client.mset_nonatomic({f"{{t}}{i}": value for i in range(10)})
assert client.mget([f"{{t}}{i}" for i in range(10)]) == [value] * 10

replicas = RedisCluster(host=sys.argv[1], port=int(sys.argv[2]), decode_responses=True, read_from_replicas=True)
assert client.wait(1, 5000, target_nodes=RedisCluster.PRIMARIES) is not None
for i in range(400):
    assert replicas.get(f"py:{i}") == value + str(i), i
print("400 keys right")
for node in client.get_nodes():
    print(f"{node.host}:{node.port}")
