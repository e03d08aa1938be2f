# SPDX-License-Identifier: Apache-2.0
"""The function of libssl that adds a message to a handshake's transcript, in an OpenSSL that makes handshakes over QUIC."""

from __future__ import annotations

from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Function, Image
from ssllatency.stacks.source_files import references

_NAME = "ssl3_finish_mac"
_QUIC = ("OSSL_QUIC_server_method", "SSL_set_quic_tls_cbs")  # since OpenSSL 3.5


def transcript_function(image: Image) -> Function | None:
    """The function by its symbol, or the only one that holds its name, which it gives with the errors that it raises. None in
    an OpenSSL that is no server of QUIC. Unplannable where it can't be told."""
    if not any(map(image.function, _QUIC)):
        return None
    named = image.function(_NAME)
    if named:
        return named
    texts = dict.fromkeys(image.find_string(_NAME.encode()), _NAME)
    found = {bounds for place, _ in references(image, texts) if (bounds := image.function_bounds(place))}
    whole = {bounds for bounds in found if not image.is_part(bounds[0])}
    if len(whole) != 1:
        raise Unplannable(f"{len(whole) or 'no'} functions hold the name {_NAME}, where one is expected")
    start, end = whole.pop()
    return Function(_NAME, start, end - start, "errors raised")
