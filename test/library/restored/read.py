"""Prints each key of the server at a port, and its value in base64."""

import base64
import sys

import redis
from cinch.redis import attach

server = attach(redis.Redis(port=int(sys.argv[1])))
for key in server.scan_iter("reading:*"):
    print(key.decode(), base64.b64encode(server.get(key)).decode())
