"""Clients in Python: what each gets is printed, a line an exchange. Run as scenario.py URL."""
import asyncio
import gzip
import hashlib
import sys

import aiohttp
import httpx
import requests
import websockets

url = sys.argv[1]
text = b"What goes over the wire costs money. " * 400
large = text * 200


def say(who, what, status, headers, body):
    kept = sorted((k.lower(), v) for k, v in headers if k.lower() not in (
        "date", "content-encoding", "content-length", "transfer-encoding", "vary", "accept-ranges", "connection"))
    print(who, what, status, kept, len(body), hashlib.sha256(body).hexdigest()[:16], flush=True)


def pieces():
    for i in range(0, len(text), 1000):
        yield text[i:i + 1000]


async def apieces():
    for p in pieces():
        yield p

exchanges = [
    ("get", "GET", "/text", None, {}), ("head", "HEAD", "/text", None, {}), ("post", "POST", "/echo", text, {}),
    ("large", "POST", "/echo", large, {}), ("empty", "POST", "/echo", b"", {}),
    ("gzip", "POST", "/echo", gzip.compress(text, mtime=0), {"Content-Encoding": "gzip"}),
    ("stream", "PUT", "/echo", None, {}), ("range", "GET", "/file", None, {"Range": "bytes=100-199"}),
    ("not modified", "GET", "/file", None, {"If-None-Match": '"strong"'}), ("weak", "GET", "/weak", None, {}),
    ("redirect", "GET", "/redirect", None, {}), ("missing", "DELETE", "/status/404", None, {}), ("error", "GET", "/status/503", None, {}),
]


def with_requests():
    with requests.Session() as s:
        for what, method, path, body, headers in exchanges:
            r = s.request(method, url + path, data=pieces() if what == "stream" else body, headers=headers)
            say("requests", what, r.status_code, r.headers.items(), r.content)


def with_httpx(two):
    with httpx.Client(http1=not two, http2=two, follow_redirects=True, trust_env=False) as s:
        for what, method, path, body, headers in exchanges:
            r = s.request(method, url + path, content=pieces() if what == "stream" else body, headers=headers)
            say(f"httpx {r.http_version}", what, r.status_code, r.headers.multi_items(), r.content)


async def with_aiohttp():
    async with aiohttp.ClientSession() as s:
        for what, method, path, body, headers in exchanges:
            async with s.request(method, url + path, data=apieces() if what == "stream" else body, headers=headers) as r:
                say("aiohttp", what, r.status, r.headers.items(), await r.read())
        async with s.get(url + "/events") as r:
            say("aiohttp", "events", r.status, r.headers.items(), await r.read())


async def with_websockets():
    for compression in (None, "deflate"):
        async with websockets.connect(url.replace("http", "ws") + "/socket", compression=compression, max_size=4 << 20) as ws:
            for m in ("text", b"binary", "", "x" * (1 << 20), bytes(range(256)) * 4096):
                await ws.send(m)
                assert await ws.recv() == m
            await ws.send(["in ", "three ", "pieces"])
            print("websockets", compression, await ws.recv(), ws.response.headers.get("Sec-WebSocket-Extensions"))
            await (await ws.ping(b"ping"))
            await ws.send("close 4001")
            try:
                await ws.recv()
            except websockets.ConnectionClosed as e:
                print("websockets", compression, "closed", e.rcvd.code, e.rcvd.reason)


with_requests()
with_httpx(False)
with_httpx(True)
asyncio.run(with_aiohttp())
if len(sys.argv) > 2:
    url = sys.argv[2]
    asyncio.run(with_websockets())
