# SPDX-License-Identifier: Apache-2.0
"""The first packets of clients of QUIC's version 1 that no library would send: with half a ClientHello, with one that can't be
read, or with one that lacks what QUIC asks for (RFC 9000, RFC 9001, 5)."""

from __future__ import annotations

import hmac
import os
import socket
import ssl
from collections.abc import Iterable
from hashlib import sha256

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SALT = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
_VERSION, _LEAST, _TAG = 1, 1200, 16
_ANSWERS_S = 30.0
_CRYPTO, _RECORD_HEADER = 6, 5
_KIND, _SESSION_ID = 0, 38  # bytes of a ClientHello: which message it is, and how long its session's ID is


def client_hello(name: str | None = None) -> bytes:
    """A whole one for HTTP/3, but for the transport parameters, in less than a packet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h3"])
    context.set_ecdh_curve("prime256v1")
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()[_RECORD_HEADER:]
    raise AssertionError("a handshake without a server")


def damaged(hello: bytes) -> bytes:
    """That ClientHello, with a session's ID that is longer than it may be."""
    return hello[:_SESSION_ID] + b"\xff" + hello[_SESSION_ID + 1 :]


def another_message(hello: bytes) -> bytes:
    """A message that isn't a ClientHello."""
    return b"\x02" + hello[_KIND + 1 :]


def send(port: int, pieces: Iterable[bytes]) -> None:
    """Send a message to the server on the loopback address in so many packets, and wait until it has answered, if only that it
    has got one."""
    connection, offset = os.urandom(8), 0
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.settimeout(_ANSWERS_S)
        sender.connect(("127.0.0.1", port))
        for number, piece in enumerate(pieces):
            sender.send(initial(connection, number, offset, piece))
            offset += len(piece)
        sender.recv(65536)


def initial(connection: bytes, number: int, offset: int, piece: bytes) -> bytes:
    """A client's packet to the server's connection of that ID, with a piece of its first message."""
    key, nonce, mask_key = _keys(connection)
    frame = bytes((_CRYPTO,)) + _long(offset) + _long(len(piece)) + piece
    head = bytes((0xC3,)) + _VERSION.to_bytes(4, "big") + bytes((len(connection),)) + connection + b"\0\0"
    frames = frame.ljust(_LEAST - len(head) - 2 - 4 - _TAG, b"\0")
    head += _long(4 + len(frames) + _TAG)
    shown = number.to_bytes(4, "big")
    sealed = AESGCM(key).encrypt((int.from_bytes(nonce, "big") ^ number).to_bytes(len(nonce), "big"), frames, head + shown)
    mask = Cipher(algorithms.AES(mask_key), modes.ECB()).encryptor().update(sealed[:16])
    first = head[0] ^ mask[0] & 0x0F
    return bytes((first,)) + head[1:] + bytes(a ^ b for a, b in zip(shown, mask[1:5], strict=True)) + sealed


def _keys(connection: bytes) -> tuple[bytes, bytes, bytes]:
    """The key, the nonce's base, and the key for headers."""
    secret = _expanded(hmac.digest(_SALT, connection, sha256), "client in", 32)
    return _expanded(secret, "quic key", 16), _expanded(secret, "quic iv", 12), _expanded(secret, "quic hp", 16)


def _expanded(secret: bytes, label: str, size: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3, of which one block is enough."""
    name = b"tls13 " + label.encode()
    return hmac.digest(secret, size.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0\1", sha256)[:size]


def _long(number: int) -> bytes:
    """In QUIC's way to write numbers, in two bytes."""
    return (0x4000 | number).to_bytes(2, "big")
