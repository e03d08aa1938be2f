# SPDX-License-Identifier: Apache-2.0
"""A TLS server that comes to TLS late, run by the tests: it says its port, loads libssl when told to, and serves.

Words on standard input, each answered by a line: "load" loads libssl; "serve N" serves N connections, each with one request;
"fork N" has a child serve them; "map FILE" maps a file as code, until "unmap".
"""

import mmap
import os
import socket
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def serve(listening: socket.socket, context: object, number: int) -> None:
    """One connection after the other."""
    for _ in range(number):
        plain, _ = listening.accept()
        with context.wrap_socket(plain, server_side=True) as tls:  # type: ignore[attr-defined]
            tls.recv(4096)
            tls.sendall(ANSWER)
            tls.unwrap()


def main() -> None:
    context = mapping = None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        for line in sys.stdin:
            word, _, what = line.strip().partition(" ")
            if word == "load":
                import ssl

                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*sys.argv[1:3])
            elif word == "map":
                with open(what, "rb") as file:  # noqa: PTH123
                    mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)
            elif word == "unmap" and mapping:
                mapping.close()
            elif word == "serve":
                serve(listening, context, int(what))
            elif (child := os.fork()) == 0:
                serve(listening, context, int(what))
                os._exit(0)
            else:
                os.waitpid(child, 0)
            print("done", flush=True)


main()
