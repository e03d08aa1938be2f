# SPDX-License-Identifier: Apache-2.0
"""A server of Python's asyncio that answers each request with 1 KiB: PORT CERTIFICATE KEY."""

from __future__ import annotations

import asyncio
import ssl
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024


class Answering(asyncio.Protocol):
    """Of one connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Requests have no body, and come whole."""
        self._transport.write(ANSWER * data.count(b"\r\n\r\n"))


async def main() -> None:
    """Serves until it is ended."""
    port, certificate, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", int(port), ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
