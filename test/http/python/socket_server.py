"""A WebSocket server that says everything again. Run as socket_server.py PORT."""
import asyncio
import sys

import websockets


async def echo(ws):
    async for m in ws:
        if isinstance(m, str) and m.startswith("close "):
            await ws.close(int(m[6:]), "as you wish")
            return
        await ws.send(m)


async def main():
    async with websockets.serve(echo, "127.0.0.1", int(sys.argv[1]), max_size=4 << 20):
        await asyncio.Future()

asyncio.run(main())
