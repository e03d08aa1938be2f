# SPDX-License-Identifier: Apache-2.0
"""Implementations that aren't traced, and of which no more is known than what their libraries are called."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.stacks.base import Implementation


class ByName(Implementation):
    """One whose libraries have these names."""

    marks = {}  # noqa: RUF012
    texts = ()

    def __init__(self, name: str, *file_names: str, unless: tuple[str, ...] = (), doubt: str = "") -> None:
        self.name = name
        self.file_names = file_names
        self.unless = unless
        self.doubt = doubt

    def identify(self, versions: Mapping[str, str]) -> None:
        """Never: it has no marks."""


BY_NAME = (
    ByName("NSS", "libssl3.so"),  # OpenSSL's is called libssl.so.3
    ByName("Mbed TLS", "libmbedtls.so*"),
    ByName("wolfSSL", "libwolfssl.so*"),
    ByName("s2n-tls", "libs2n.so*"),
    ByName("Botan", "libbotan-[23].so*"),
    ByName(
        "Java's own TLS (JSSE)",
        "libjvm.so",
        unless=("*tcnative*.so*", "libconscrypt*.so*"),  # Tomcat's and Netty's native libraries, and Conscrypt
        doubt="Whether a program on a Java virtual machine does TLS can't be told from outside.",
    ),
)
