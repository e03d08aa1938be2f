# SPDX-License-Identifier: Apache-2.0
"""The function of libssl that adds a message to a handshake's transcript, in an OpenSSL that makes handshakes over QUIC."""

from __future__ import annotations

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_of
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Function, Image, Range
from ssllatency.stacks.source_files import references

_NAME = "ssl3_finish_mac"
_QUIC = ("OSSL_QUIC_server_method", "SSL_set_quic_tls_cbs")  # since OpenSSL 3.5


_ADDS = ("BIO_write", "EVP_DigestUpdate")  # a message to what is kept, and to its digest


def transcript_function(image: Image, bodies: Bodies) -> Function | None:
    """The function by its symbol, or the only one that holds its name, which it gives with the errors that it raises; of
    several that may, or where none does, the one that calls what adds a message. None in an OpenSSL that is no server of QUIC.
    Unplannable where it can't be told."""
    if not any(map(image.function, _QUIC)):
        return None
    named = image.function(_NAME)
    if named:
        return named
    found = _holding(image)
    if len(found) != 1:
        adding = _adding(image, bodies)
        found = found & adding if found else adding
    if len(found) != 1:
        raise Unplannable(f"{len(found) or 'no'} functions may be {_NAME}, where one is expected")
    start, end = found.pop()
    return Function(_NAME, start, end - start, "errors raised")


def _holding(image: Image) -> set[Range]:
    texts = dict.fromkeys(image.find_string(_NAME.encode()), _NAME)
    found = {bounds for place, _ in references(image, texts) if (bounds := image.function_bounds(place))}
    return {bounds for bounds in found if not image.is_part(bounds[0])}


def _adding(image: Image, bodies: Bodies) -> set[Range]:
    """In code for aarch64 the address of a name may be far from that of its page, and what is added to it may be to another."""
    sites = calls_of(image, _ADDS)
    starts = set.intersection(*(set(bodies.functions(sites[name])) for name in _ADDS))
    return {bounds for start in starts if not image.is_part(start) and (bounds := image.function_bounds(start))}
