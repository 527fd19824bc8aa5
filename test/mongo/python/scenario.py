"""Runs the shared scenario against the URI that is given. Prints ok when every answer is right."""
import sys

import gridfs
import pymongo

client = pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=15000)
db = client["scenario_python"]
client.drop_database(db.name)
things = db["things"]
documents = [{"_id": i, "text": f"document number {i} of a scenario", "n": i * 3} for i in range(300)]
things.insert_many(documents)
assert list(things.find(batch_size=100).sort("_id", 1)) == documents
assert things.update_many({}, {"$inc": {"n": 1}}).modified_count == 300
assert things.find_one({"_id": 7})["n"] == 22
assert list(things.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$n"}}}]))[0]["sum"] == sum(d["n"] + 1 for d in documents)
with things.watch() as stream:
    with client.start_session() as session:
        with session.start_transaction():
            things.insert_one({"_id": "in a transaction"}, session=session)
    assert stream.next()["documentKey"]["_id"] == "in a transaction"
large = "a large value " * 400_000
things.insert_one({"_id": "large", "v": large})
assert things.find_one({"_id": "large"})["v"] == large
things.with_options(write_concern=pymongo.WriteConcern(w=0)).insert_one({"_id": "silent"})
files = gridfs.GridFS(db)
content = bytes(range(256)) * 4096
assert files.get(files.put(content)).read() == content
client.admin.command("ping")
try:
    things.find_one({"$nonsense": 1})
    raise SystemExit("no error came")
except pymongo.errors.OperationFailure:
    pass
assert things.count_documents({}) == 303
print("ok")
