# SPDX-License-Identifier: Apache-2.0
"""Certificates that servers are given, with what is to be told of them: taken from the files by openssl."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from ssllatency.load.matrix.servers.certificates import KEY_OPTIONS

Facts = dict[str, object]


def make_named_certificate(kind: str, folder: Path, name: str, days: int) -> Path:
    """NAME.crt and NAME.key, signed by themselves."""
    made = ["openssl", "req", "-x509", "-newkey", *KEY_OPTIONS[kind], "-nodes", "-days", str(days), "-subj", f"/CN={name}"]
    subprocess.run([*made, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"], check=True, capture_output=True)
    return folder / f"{name}.crt"


def certify(folder: Path, name: str, kind: str, days: int, *others: Path) -> Facts:
    """Makes the certificate of a name, and what is to be told of it; the others are put behind it, to be sent with it."""
    pair = make_named_certificate(kind, folder, name, days)
    text = pair.read_text()
    pair.write_text(text + "".join(other.read_text() for other in others))
    der = ssl.PEM_cert_to_DER_cert(text)
    said = subprocess.run(
        ["openssl", "x509", "-noout", "-serial", "-enddate"], input=text, capture_output=True, text=True, check=True
    )
    serial, until = (line.partition("=")[2] for line in said.stdout.splitlines())
    return {"name": name, "serial": serial.lower(), "not_after_s": ssl.cert_time_to_seconds(until), "size": len(der)}


def bytes_of(*files: Path) -> int:
    """The bytes of all certificates in these files, as they are sent."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    pieces = (piece for file in files for piece in file.read_text().split(begin)[1:])
    return sum(len(ssl.PEM_cert_to_DER_cert(begin + piece.partition(end)[0] + end)) for piece in pieces)
