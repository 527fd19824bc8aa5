#!/usr/bin/env python3
"""A plain forwarder: forward.py HOST PORT BEHIND_PORT."""
import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def client(reader, writer):
    try:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[3]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, behind_writer), copy(behind_reader, writer))
    writer.close()
    behind_writer.close()


async def main():
    server = await asyncio.start_server(client, sys.argv[1], int(sys.argv[2]))
    await server.serve_forever()


asyncio.run(main())
