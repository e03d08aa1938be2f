# SPDX-License-Identifier: Apache-2.0
"""Implementations that aren't traced, and of which no more is known than what their files are called."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.stacks.base import Implementation


class ByName(Implementation):
    """One whose files have these names."""

    marks = {}  # noqa: RUF012
    texts = ()

    def __init__(self, name: str, *file_names: str, unless: tuple[str, ...] = (), doubt: str = "", instead: str = "") -> None:
        self.name = name
        self.file_names = file_names
        self.unless = unless
        self.doubt = doubt
        self.instead = instead

    def identify(self, versions: Mapping[str, str]) -> None:
        """Never: it has no marks."""


BY_NAME = (
    ByName(
        "NSS",
        "libssl3.so",  # OpenSSL's is called libssl.so.3
        instead="NSS makes handshakes within the reads and writes of NSPR, so that they don't show as calls; bpftrace can time"
        " the private key of full ones, PK11_Sign and PK11_SignWithMechanism of libnss3.so.",
    ),
    ByName("Botan", "libbotan-[23].so*"),
    ByName(
        "Java's own TLS (JSSE)",
        "libjvm.so",
        unless=("*tcnative*.so*", "libconscrypt*.so*"),  # Tomcat's and Netty's native libraries, and Conscrypt
        doubt="Whether a program on a Java virtual machine does TLS can't be told from outside.",
        instead="Java's own TLS is compiled while it runs, so that no probe can be set in it; handshakes --jfr asks the JVM's"
        " Flight Recorder how many handshakes there were, by version and cipher, and since JDK 25 the time of their"
        " signatures and why they fail.",
    ),
    ByName(
        "Erlang's own TLS",
        "beam.smp",
        doubt="Whether a program on Erlang's virtual machine does TLS can't be told from outside.",
        instead="Erlang's own TLS runs in its virtual machine, where no probe can be set; trace shows the private-key"
        " operations and key exchanges for which it calls OpenSSL's libcrypto.",
    ),
)
