# SPDX-License-Identifier: Apache-2.0
"""The field by which connections are told that quiche makes only to look into a ClientHello, in a program that quiche is linked
into.

Such a connection (quiche's TlsChloExtractor) is a server's over QUIC, and its callback refuses each ClientHello once it was
seen, so that it looks as a handshake that fails, or that is abandoned where it has seen but a part. It has no transport
parameters to send, which real ones get in the same callback. But its SSL_CTX has no function that chooses the protocol either,
and that is there from the beginning: BoringSSL refuses each handshake over QUIC without one.
"""

from __future__ import annotations

from ssllatency.code.evaluate import followed_in
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, FieldPath, SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.stacks.boringssl.raised_errors import RaisedErrors

# quiche's text for an alert of such a connection's that it doesn't expect, the same since 2020.
_QUICHE = b"BoringSSL attempted to send alert "
_FILE = "extensions"
# openssl/ssl.h: SSL_R_PARSE_TLSEXT, and SSL_R_NO_APPLICATION_PROTOCOL.
_ALPN = {190, 307}
_POINTER = 8
_SSL, _LENGTH = 0, 3  # where a handshake points to its SSL; fields on the way from there to its SSL_CTX and the function


def inspection_path(image: Image, errors: RaisedErrors, holder: int) -> FieldPath:
    """Return the way from SSL to the function by which its program chooses a protocol. `holder` is where SSL points to the rest
    of its state. Unplannable in a program without quiche, and where the one function that negotiates protocols doesn't show it:
    it looks at that field of the SSL_CTX, and perhaps at what is passed to the function, right behind it, and at no other."""
    negotiating = [function for function, raised in errors.of(_FILE).items() if raised >= _ALPN]
    if len(negotiating) != 1:
        raise Unplannable(f"{len(negotiating) or 'no'} functions negotiate protocols, where one is expected")
    fields = followed_in(image, negotiating[0][0], Assumptions({"rdi": SymbolicAddress("argument", 0)})).fields
    paths = sorted(
        field.path for field in fields if len(field.path) == _LENGTH and field.path[0] == _SSL and field.path[1] != holder
    )
    first = paths[0] if paths else ()
    if not first or paths[1:] not in ([], [(*first[:-1], first[-1] + _POINTER)]):
        raise Unplannable("the function that chooses the protocol isn't seen")
    if any(field.path in paths and not field.is_pointer for field in fields):
        raise Unplannable("the function that chooses the protocol is no pointer")
    if not any(image.find_string(_QUICHE)):
        raise Unplannable("quiche isn't linked into the program")
    return FieldPath(first[1:], _POINTER)
