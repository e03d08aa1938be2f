# SPDX-License-Identifier: Apache-2.0
"""A server of Python's asyncio, which moves the bytes itself: asyncio_program.py CERTIFICATE KEY. It prints its port, closes
after the first bytes of each client, and is busy for 50 ms at each SIGUSR2."""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
import time

STALL_S = 0.05


def stall() -> None:
    end = time.monotonic() + STALL_S
    while time.monotonic() < end:
        pass


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


async def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[1:])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context, backlog=128)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, stall)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
