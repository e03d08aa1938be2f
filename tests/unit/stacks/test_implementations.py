# SPDX-License-Identifier: Apache-2.0
"""TLS implementations that aren't OpenSSL, by the names of mapped libraries and by what is in a program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.stacks.by_name import BY_NAME
from ssllatency.stacks.file_names import untraced_in
from ssllatency.stacks.implementations import Inside, tls_inside
from ssllatency.stacks.registry import INSTEAD

JAVA = "Java's own TLS (JSSE)"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["libgnutls.so.30.34.3"], []),
        (["libssl3.so", "libnss3.so"], ["NSS"]),
        (["libssl.so.3", "libcrypto.so.3"], []),
        (["libnss_dns.so.2"], []),
        (["libmbedtls.so.14"], []),
        (["libwolfssl.so.35"], []),
        (["libs2n.so.1"], []),
        (["beam.smp", "crypto.so", "libcrypto.so.3"], ["Erlang's own TLS"]),
        (["libcurl-gnutls.so.4"], []),
        (["libjvm.so", "libnet.so"], [JAVA]),
        (["libjvm.so", "libtcnative-1.so.0.2.35"], []),
        (["libjvm.so", "libnetty_tcnative_linux_x86_6412345.so"], []),
        (["libjvm.so", "libconscrypt_openjdk_jni-linux-x86_64.so"], []),
        (["libjvm.so", "libgnutls.so.30"], [JAVA]),
        ([], []),
    ],
)
def test_by_the_names_of_libraries(names: list[str], found: list[str]) -> None:
    assert [each.name for each in untraced_in(f"/usr/lib/{name}" for name in names)] == found


def test_what_is_not_traced_says_what_tells_of_it_instead() -> None:
    said = {one.name: one.instead for one in BY_NAME} | INSTEAD
    assert {name for name, instead in said.items() if not instead} == {"Botan"}
    assert len(set(said.values())) == len(said)


def program(folder: Path, *texts: bytes) -> Image:
    """An ELF program with these bytes among its constants."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler: apt-get install gcc")
    numbers = ",".join(str(byte) for text in texts for byte in text) or "0"
    (folder / "main.c").write_text(f"const unsigned char kept[] = {{{numbers}}};\nint main(void) {{ return kept[1]; }}\n")
    subprocess.run([compiler, "-O0", "-s", "-o", folder / "main", folder / "main.c"], check=True)
    return Image.open(folder / "main")


GO = b"\xff Go buildinf:\x08\x02" + bytes(16) + b"\x08go1.22.3\x00"
OLD_GO = b"\xff Go buildinf:\x08\x00" + bytes(16)
GO_TLS = b"\0crypto/tls.(*Conn).serverHandshake\0"


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], Inside()),
        ([GO, GO_TLS], Inside((), ("Go crypto/tls", "go1.22.3"))),
        ([OLD_GO, bytes(32), GO_TLS], Inside((), ("Go crypto/tls", ""))),
        ([GO], Inside()),
        ([GO_TLS], Inside()),
        ([b"\0/root/.cargo/registry/src/x-1/rustls-0.23.5/src/conn.rs"], Inside((("rustls", "0.23.5"),))),
        ([b"/rustls-pki-types-1.7.0/src/lib.rs /rustls-native-certs-0.7.0/src/unix.rs"], Inside()),
        ([b"/rustls-pki-types-1.7.0/src/lib.rs /rustls-0.21.0/src/a.rs"], Inside((("rustls", "0.21.0"),))),
        ([b"\0S2N_ERR_IO_BLOCKED\0"], Inside((), ("s2n-tls", ""))),
        ([b"../ssl/ssl_lib.c\0"], Inside((), ("OpenSSL", ""))),
        ([b"/src/ssl/ssl_lib.cc\0"], Inside((), ("BoringSSL", ""))),
        ([b"/src/ssl/ssl_lib.cc\0No Config files in AWS-LC.\0AWS-LC 5.12.0\0"], Inside((), ("AWS-LC", "5.12.0"))),
        ([b"/src/ssl/ssl_lib.cc\0AWS-LC KEM method\0"], Inside((), ("AWS-LC", ""))),
        ([b"AWS-LC 5.12.0\0"], Inside()),
        ([GO, GO_TLS, b"../ssl/ssl_lib.c\0"], Inside((("Go crypto/tls", "go1.22.3"),), ("OpenSSL", ""))),
    ],
)
def test_by_what_a_program_holds(tmp_path: Path, texts: list[bytes], found: Inside) -> None:
    assert tls_inside(program(tmp_path, *texts)) == found


def test_build_information_cut_short(tmp_path: Path) -> None:
    assert tls_inside(program(tmp_path, GO_TLS, GO[:33], b"\xff")).traceable == ("Go crypto/tls", "")
