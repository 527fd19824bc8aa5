"""What the drivers of Python's queues share: values of an application, and how to tell a result."""

import hashlib
import json
import os

HOST, PORT = os.environ["QUEUE_HOST"], int(os.environ["QUEUE_PORT"])
URL = f"redis://{HOST}:{PORT}/0"


def menu(i):
    """A value that is worth sealing."""
    return json.dumps({"i": i, "dishes": [{"name": f"dish {n} of {i}", "price": n * 10, "tags": ["hot", "cold"]} for n in range(40)]})


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def tell(what, result):
    print(f"{what}\t{json.dumps(result)}", flush=True)


def fill(client, count):
    """Writes the application's values, which jobs read and count."""
    for i in range(count):
        client.set(f"app:menu:{i}", menu(i))
        client.hset(f"app:order:{i}", mapping={"text": menu(i), "n": i})


def look(client, i):
    """Reads them as a job would, and counts that it was run."""
    text = client.get(f"app:menu:{i}").decode()
    assert text == menu(i)
    assert client.strlen(f"app:menu:{i}") == len(text)
    assert client.hget(f"app:order:{i}", "text").decode() == text
    client.incr(f"app:runs:{i}")
    return digest(text)


def runs(client, count):
    return [int(client.get(f"app:runs:{i}") or 0) for i in range(count)]
