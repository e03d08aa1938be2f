# SPDX-License-Identifier: Apache-2.0
"""Accessors of OpenSSL 3.2 and later, which look at what kind of object they are given, as compilers make them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests import foreign

from ssllatency.code.values import FieldPath
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import bio_flags_offset, field_set, ssl_offsets

# An SSL of QUIC has its BIOs elsewhere, and the SSL of its handshake in a field of its own.
_SOURCE = """
struct ssl { int type; char before[68]; void *rbio; void *wbio; char between[56]; int flow; int filler[4]; int state;
	const void *method; };
struct quic { int type; char before[60]; struct ssl *tls; char between[24]; void *net_rbio, *net_wbio; };
static struct ssl *connection(struct ssl *ssl)
{
	if (!ssl)
		return 0;
	return ssl->type == 0 ? ssl : ssl->type == 1 ? ((struct quic *)ssl)->tls : 0;
}
void *SSL_get_rbio(struct ssl *ssl)
{
	if (!ssl)
		return 0;
	if (ssl->type)
		return ssl->type == 1 || ssl->type == 2 ? ((struct quic *)ssl)->net_rbio : 0;
	return ssl->rbio;
}
void *SSL_get_wbio(struct ssl *ssl)
{
	if (!ssl)
		return 0;
	if (ssl->type)
		return ssl->type == 1 || ssl->type == 2 ? ((struct quic *)ssl)->net_wbio : 0;
	return ssl->wbio;
}
int SSL_get_state(struct ssl *ssl)
{
	struct ssl *of = connection(ssl);

	return of ? of->state : 0;
}
int SSL_in_before(struct ssl *ssl)
{
	struct ssl *of = connection(ssl);

	return of && of->state == 0 && of->flow == 0;
}
int SSL_set_quic_method(struct ssl *ssl, const void *method)
{
	if (!ssl || ssl->type)
		return ssl && (((struct quic *)ssl)->net_rbio = (void *)method) != 0;
	ssl->method = method;
	ssl->filler[0] &= ~16;
	return 1;
}
int SSL_set_two(struct ssl *ssl, const void *method)
{
	ssl->rbio = ssl->wbio = (void *)method;
	return 1;
}
int SSL_set_elsewhere(struct ssl *ssl, const void *method)
{
	*(const void **)ssl->rbio = method;
	return 1;
}
int SSL_set_half(struct ssl *ssl, const void *method)
{
	ssl->flow = (int)(long)method;
	return 1;
}
"""


def compiled(folder: Path, optimised: str) -> Path:
    """The library of _SOURCE."""
    source, library = folder / "ssl.c", folder / "ssl.so"
    source.write_text(_SOURCE)
    subprocess.run(["cc", optimised, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize("optimised", ["-O1", "-O2", "-O3"])
def test_what_is_read_of_a_connection_counts(tmp_path: Path, optimised: str) -> None:
    assert ssl_offsets(Image.open(compiled(tmp_path, optimised))) == {"rbio": 72, "wbio": 80, "hand_state": 164, "state": 144}


@pytest.mark.parametrize("optimised", ["-O1", "-O2", "-O3"])
def test_the_one_field_that_is_set(tmp_path: Path, optimised: str) -> None:
    """In the connection itself, as a whole, and no other beside it."""
    image = Image.open(compiled(tmp_path, optimised))
    assert field_set(image, "SSL_set_quic_method") == FieldPath((168,), 8)
    assert [field_set(image, f"SSL_set_{name}") for name in ("two", "elsewhere", "half", "nothing")] == 4 * [None]


def test_those_of_openssl_3_3_in_a_python_package() -> None:
    """Linked in with little else: its offsets are as the disassembly shows them."""
    image = Image.open(foreign.needed(foreign.python_package("cryptography")) / "cryptography/hazmat/bindings/_rust.abi3.so")
    expected = {"rwstate": 96, "server": 112, "rbio": 72, "wbio": 80, "shutdown": 124, "state": 144, "hand_state": 164}
    assert expected.items() <= ssl_offsets(image).items()
    assert bio_flags_offset(image) == 48
