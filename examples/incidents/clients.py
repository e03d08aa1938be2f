# SPDX-License-Identifier: Apache-2.0
"""Clients of run: each connection shakes hands anew, asks for a page, and goes. Until it is killed."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import socket
import ssl
import threading
import time


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0, help="connections a second of all threads; 0: as many as they can")
    parser.add_argument("--names", default="localhost", help="server names, one after the other")
    parser.add_argument("--think", type=float, default=0, help="seconds before each message of a handshake")
    parser.add_argument("--old", action="store_true", help="offer a cipher that the server's keys don't allow, alone")
    return parser.parse_args()


def context(old: bool) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if old:
        made.maximum_version = ssl.TLSVersion.TLSv1_2
        made.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    return made


def visit(options: argparse.Namespace, tls: ssl.SSLContext, name: str) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = tls.wrap_bio(incoming, outgoing, server_hostname=name)
    with socket.create_connection(("127.0.0.1", options.port)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shaken = False
        while not shaken:
            try:
                connection.do_handshake()
                shaken = True
            except ssl.SSLWantReadError:
                pass
            time.sleep(options.think)
            plain.sendall(outgoing.read())
            if not shaken:
                data = plain.recv(65536)
                if not data:
                    return
                incoming.write(data)
        connection.write(b"GET / HTTP/1.0\r\n\r\n")
        plain.sendall(outgoing.read())
        while plain.recv(65536):
            pass


def work(options: argparse.Namespace, number: int) -> None:
    tls = context(options.old)
    pause_s = options.threads / options.rate if options.rate else 0.0
    due = time.monotonic() + pause_s * number / options.threads
    for name in itertools.cycle(options.names.split(",")):
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + pause_s, time.monotonic() - pause_s)
        with contextlib.suppress(OSError):
            visit(options, tls, name)


def main() -> None:
    options = parsed()
    for number in range(options.threads):
        threading.Thread(target=work, args=(options, number), daemon=True).start()
    threading.Event().wait()


main()
