# SPDX-License-Identifier: Apache-2.0
"""Self-signed certificates with keys of every kind, by openssl, for servers and clients that live as long as one command."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.load.figures import LoadError

# The arguments of `openssl req -newkey` by name.
KEY_OPTIONS = {
    "RSA-2048": ("rsa:2048",),
    "RSA-3072": ("rsa:3072",),
    "RSA-4096": ("rsa:4096",),
    "ECDSA-P-256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "ECDSA-P-384": ("ec", "-pkeyopt", "ec_paramgen_curve:P-384"),
    "Ed25519": ("ed25519",),
}
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def make_certificate(kind: str, directory: Path, name: str) -> Certificate:
    """Makes NAME.crt and NAME.key in the directory, valid for two days; `kind` is one of KEY_OPTIONS."""
    certificate = Certificate(directory / f"{name}.crt", directory / f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", *KEY_OPTIONS[kind], "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-keyout", str(certificate.key), "-out", str(certificate.certificate)]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LoadError(f"openssl can't make a key of kind {kind}: {error}.") from None
    if completed.returncode:
        raise LoadError(f"openssl can't make a key of kind {kind}: {' '.join(completed.stderr.split())[-200:]}.")
    return certificate
