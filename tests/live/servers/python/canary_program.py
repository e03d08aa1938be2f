# SPDX-License-Identifier: Apache-2.0
"""A TLS server whose every secret is known, run by the tests: CERTIFICATE KEY KEYLOG, where the key is encrypted.

The first line of its input is the key's password, the second what it answers with. It prints its port and serves until it is
killed; what it logs into KEYLOG are the secrets of its connections.
"""

import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path

NAME = "canary-server"


def main() -> None:
    Path("/proc/self/comm").write_text(NAME)
    certificate, key, log = sys.argv[1:4]
    password, answer = sys.stdin.readline().strip(), sys.stdin.readline().strip()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key, password)
    context.keylog_filename = log
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            plain, _ = listening.accept()
            plain.settimeout(10)
            with suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as tls:
                tls.recv(4096)
                tls.sendall(f"HTTP/1.0 200 OK\r\n\r\n{answer}".encode())
                tls.unwrap()


main()
