# SPDX-License-Identifier: Apache-2.0
"""TLS implementations that aren't traced, recognised by the names of the libraries that a process maps."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

JAVA = "Java's own TLS (JSSE)"
# NSS calls its libssl libssl3.so; OpenSSL's is libssl.so.3.
_LIBRARIES = (
    ("libgnutls.so*", "GnuTLS"),
    ("libssl3.so", "NSS"),
    ("libmbedtls.so*", "Mbed TLS"),
    ("libwolfssl.so*", "wolfSSL"),
    ("libs2n.so*", "s2n-tls"),
    ("libbotan-[23].so*", "Botan"),
)
_JAVA = "libjvm.so"
# What gives Java programs another TLS: Tomcat's and Netty's native libraries, and Conscrypt.
_NATIVE = ("*tcnative*.so*", "libconscrypt*.so*")


def foreign_implementations(paths: Iterable[str]) -> tuple[str, ...]:
    """The implementations whose libraries are among these files of a process. A Java virtual machine counts as one: whether a
    program in it does TLS can't be determined from outside."""
    names = [path.rpartition("/")[2] for path in paths]
    implementations = [implementation for pattern, implementation in _LIBRARIES if _any(names, pattern)]
    if _JAVA in names and not any(_any(names, pattern) for pattern in _NATIVE):
        implementations.append(JAVA)
    return tuple(implementations)


def _any(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
