# SPDX-License-Identifier: Apache-2.0
"""Names for the codes that a TLS library uses, out of its own tables: what `openssl errstr` or an alert's text would say.

A file of the target is read, nothing of it is run. What a library doesn't have, or doesn't show, is absent; libssl and
libcrypto have different parts, which join() puts together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ssllatency.elf import capabilities, tls_names
from ssllatency.elf.error_texts import error_texts, unpack
from ssllatency.elf.image import Image

__all__ = ["Names", "join", "names", "unpack"]


@dataclass(frozen=True)
class Names:
    """What codes mean in one library, or in the libraries of one process."""

    reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """(library, reason) to its text; library 0 has the reasons that all libraries share."""
    libraries: Mapping[int, str] = field(default_factory=dict)
    """The number of a part of OpenSSL, as 20, to its name, "SSL routines"."""
    alerts: Mapping[int, str] = field(default_factory=dict)
    """The number of a TLS alert to its description."""
    states: Mapping[int, str] = field(default_factory=dict)
    """OSSL_HANDSHAKE_STATE to the text of SSL_state_string_long."""
    ciphers: Mapping[int, str] = field(default_factory=dict)
    """The 32-bit identifier of a cipher, 0x0300 and its number in TLS, to its name as SSL_CIPHER_get_name gives it."""
    groups: Mapping[int, str] = field(default_factory=dict)
    """The IANA number of a group to its name."""
    signatures: Mapping[int, str] = field(default_factory=dict)
    """The code point of a signature scheme to its name."""
    major: int = 0
    """How error codes are packed, for unpack(): 3 or 1; 0 where that isn't known."""
    curves: Mapping[int, int] = field(default_factory=dict)
    """OpenSSL 1.1.1's libssl: the IANA number of a group to the NID of its curve, which join() needs."""
    objects: Mapping[int, str] = field(default_factory=dict)
    """OpenSSL 1.1.1's libcrypto: the NID of an object to its short name, which join() needs."""

    def reason(self, code: int) -> str:
        """The text of the packed error code, "" if it has none or `major` isn't known."""
        if not self.major:
            return ""
        library, reason = unpack(code, self.major)
        return self.reasons.get((library, reason)) or self.reasons.get((0, reason), "")


def names(image: Image) -> Names:
    """All names in the image: a libssl, a libcrypto or a program with both. ElfError where its relocations are damaged."""
    errors = error_texts(image)
    found = Names(
        reasons=errors.reasons,
        libraries=errors.libraries,
        alerts=tls_names.alerts(image),
        states=tls_names.states(image),
        ciphers=tls_names.ciphers(image),
        groups=capabilities.groups(image),
        signatures={**capabilities.provided_signatures(image), **tls_names.signatures(image)},
        major=errors.major,
        curves=capabilities.curves(image) if errors.major == 1 else {},
        objects=capabilities.objects(image) if errors.major == 1 else {},
    )
    return join(found, Names())


def join(one: Names, other: Names) -> Names:
    """What either knows; where both know a code, the name is that of `one`."""
    curves, objects = {**other.curves, **one.curves}, {**other.objects, **one.objects}
    return Names(
        reasons={**other.reasons, **one.reasons},
        libraries={**other.libraries, **one.libraries},
        alerts={**other.alerts, **one.alerts},
        states={**other.states, **one.states},
        ciphers={**other.ciphers, **one.ciphers},
        groups={**capabilities.groups_of_curves(curves, objects), **other.groups, **one.groups},
        signatures={**other.signatures, **one.signatures},
        major=one.major or other.major,
        curves=curves,
        objects=objects,
    )
