# SPDX-License-Identifier: Apache-2.0
"""Names for the codes that a TLS library uses, read out of its own tables. Nothing of a target is run."""

from __future__ import annotations

from ssllatency.elf.image import Image
from ssllatency.stacks.names import ALERTS, Names, join
from ssllatency.stacks.openssl.names import capabilities, error_texts
from ssllatency.stacks.openssl.names import tls as tls_names

_SHAKES = "SSL_do_handshake"


def names(image: Image) -> Names:
    """All names in the image: a libssl, a libcrypto or a program with both. ElfError where its relocations are damaged."""
    errors = error_texts.error_texts(image)
    alerts = tls_names.alerts(image)
    if not alerts and image.function(_SHAKES):
        alerts = ALERTS  # a program into which nothing linked the function that names them
    own_names = Names(
        reasons=errors.reasons,
        libraries=errors.libraries,
        alerts=alerts,
        states=tls_names.states(image),
        ciphers=tls_names.ciphers(image),
        groups=capabilities.groups(image),
        signatures={**capabilities.provided_signatures(image), **tls_names.signatures(image)},
        major=errors.major,
        curves=capabilities.curves(image) if errors.major == 1 else {},
        objects=capabilities.objects(image) if errors.major == 1 else {},
    )
    return join(own_names, Names())
