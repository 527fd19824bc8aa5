"""Writes and reads by several threads through one client until standard input ends. Prints how often each thread has succeeded while it
runs, and at the end one JSON object with the ids that were acknowledged and the errors."""
import json
import sys
import threading

import pymongo

uri, collection, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=15000)
things = client["shop"][collection]
acknowledged = [[] for _ in range(threads)]
errors = []
stop = threading.Event()


def work(i):
    n = 0
    while not stop.is_set():
        n += 1
        try:
            things.insert_one({"_id": f"{i}/{n}", "n": n})
            acknowledged[i].append(f"{i}/{n}")
            if things.find_one({"_id": f"{i}/{n}"})["n"] != n:
                errors.append("wrong document")
        except pymongo.errors.PyMongoError as e:
            errors.append(repr(e)[:300])


workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
for w in workers:
    w.start()
reading = threading.Thread(target=lambda: (sys.stdin.read(), stop.set()))
reading.start()
while not stop.wait(0.05):
    print(json.dumps({"done": [len(a) for a in acknowledged]}), flush=True)
for w in workers:
    w.join()
print(json.dumps({"ids": [id for a in acknowledged for id in a], "errors": errors}), flush=True)
