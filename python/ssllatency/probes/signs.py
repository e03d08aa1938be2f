# SPDX-License-Identifier: Apache-2.0
"""The signs by which a file is recognised as a traced library, as containing one, or as another implementation of TLS: the only
such list."""

from __future__ import annotations

from ssllatency.elf.quick_look import Signs
from ssllatency.probes.catalogue import CATALOGUE
from ssllatency.stacks.openssl.implementations import TEXTS

# Functions that tell what a file is, by the catalogue's name of the library. Any of them will do.
FUNCTIONS = {
    "libssl": ("SSL_do_handshake", "SSL_read"),
    "libcrypto": ("RSA_PKCS1_OpenSSL", "EVP_DigestSign"),
    "libcrypto_mb": tuple(operation.name for operation in CATALOGUE if operation.library == "libcrypto_mb"),
    "qatengine": ("multibuff_rsa_priv_enc", "qat_rsa_priv_enc"),
}
# The engine where it is stripped: by the name that it gives itself, and the function that every engine has.
SONAMES = {"qatengine.so": "qatengine", "libqatengine.so": "qatengine", "libqat.so": "qatengine"}
ENGINE = "bind_engine"

_NAMES = (*(name for names in FUNCTIONS.values() for name in names), ENGINE)
# A file without any of these contains no TLS. A file with some may.
QUICK = Signs(tuple(name.encode() for name in _NAMES), TEXTS)
