# SPDX-License-Identifier: Apache-2.0
"""A server whose sessions lie in a store outside of the library that is slow to answer, as a program: session_program.py
SETTINGS, an object with `certificate`, `key` and `answer_s`. It speaks to the system's OpenSSL itself, as Python's ssl module
knows no such store, and prints its port. No tickets; one thread serves one connection after the other."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import socket
import sys
import time

SETTINGS = json.loads(sys.argv[1])
SSL_FILETYPE_PEM = 1
SSL_OP_NO_TICKET = 1 << 14
SSL_CTRL_SET_SESS_CACHE_MODE = 44
SSL_SESS_CACHE_SERVER = 0x0002
SSL_SESS_CACHE_NO_INTERNAL = 0x0300

LIBSSL = ctypes.CDLL(ctypes.util.find_library("ssl"))
Address = ctypes.c_void_p
# The session by its ID of so many bytes, and whether the library is to keep a reference to it.
Look = ctypes.CFUNCTYPE(Address, Address, ctypes.POINTER(ctypes.c_ubyte), ctypes.c_int, ctypes.POINTER(ctypes.c_int))


def function(name: str, result: object, *arguments: object) -> ctypes._NamedFuncPointer:
    found: ctypes._NamedFuncPointer = getattr(LIBSSL, name)
    found.restype, found.argtypes = result, arguments  # type: ignore[assignment]
    return found


def look_up(_ssl: int, _identifier: object, _length: int, _copy: object) -> int | None:
    """The store answers late, and knows no session."""
    time.sleep(SETTINGS["answer_s"])
    return None


def main() -> None:
    look = Look(look_up)
    context = function("SSL_CTX_new", Address, Address)(function("TLS_server_method", Address)())
    control = function("SSL_CTX_ctrl", ctypes.c_long, Address, ctypes.c_int, ctypes.c_long, Address)
    outside = SSL_SESS_CACHE_NO_INTERNAL if SETTINGS["answer_s"] else 0
    control(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_SERVER | outside, None)
    function("SSL_CTX_set_options", ctypes.c_uint64, Address, ctypes.c_uint64)(context, SSL_OP_NO_TICKET)
    function("SSL_CTX_set_session_id_context", ctypes.c_int, Address, ctypes.c_char_p, ctypes.c_uint)(context, b"test", 4)
    for name, file in (("SSL_CTX_use_certificate_file", "certificate"), ("SSL_CTX_use_PrivateKey_file", "key")):
        assert function(name, ctypes.c_int, Address, ctypes.c_char_p, ctypes.c_int)(
            context, SETTINGS[file].encode(), SSL_FILETYPE_PEM
        )
    if SETTINGS["answer_s"]:
        function("SSL_CTX_sess_set_get_cb", None, Address, Look)(context, look)
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    while True:
        with listener.accept()[0] as connection:
            serve(context, connection)


def serve(context: int, connection: socket.socket) -> None:
    """A handshake, and one byte, so that the client knows that it is over."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ssl = function("SSL_new", Address, Address)(context)
    function("SSL_set_fd", ctypes.c_int, Address, ctypes.c_int)(ssl, connection.fileno())
    if function("SSL_accept", ctypes.c_int, Address)(ssl) == 1:
        function("SSL_write", ctypes.c_int, Address, ctypes.c_char_p, ctypes.c_int)(ssl, b"x", 1)
        function("SSL_shutdown", ctypes.c_int, Address)(ssl)
    function("SSL_free", None, Address)(ssl)


if __name__ == "__main__":
    main()
