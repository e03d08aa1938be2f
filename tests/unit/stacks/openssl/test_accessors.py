# SPDX-License-Identifier: Apache-2.0
"""Accessors of OpenSSL 3.2 and later, which look at what kind of object they are given, as compilers make them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests import foreign

from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import bio_flags_offset, ssl_offsets

# An SSL of QUIC has its BIOs elsewhere, and the SSL of its handshake in a field of its own.
_SOURCE = """
struct ssl { int type; char before[68]; void *rbio; void *wbio; char between[56]; int flow; int filler[4]; int state; };
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
"""


@pytest.mark.parametrize("optimised", ["-O1", "-O2", "-O3"])
def test_what_is_read_of_a_connection_counts(tmp_path: Path, optimised: str) -> None:
    source, library = tmp_path / "ssl.c", tmp_path / "ssl.so"
    source.write_text(_SOURCE)
    subprocess.run(["cc", optimised, "-shared", "-fPIC", "-o", library, source], check=True)
    assert ssl_offsets(Image.open(library)) == {"rbio": 72, "wbio": 80, "hand_state": 164, "state": 144}


def test_those_of_openssl_3_3_in_a_python_package() -> None:
    """Linked in with little else: its offsets are as the disassembly shows them."""
    image = Image.open(foreign.needed(foreign.python_package("cryptography")) / "cryptography/hazmat/bindings/_rust.abi3.so")
    expected = {"rwstate": 96, "server": 112, "rbio": 72, "wbio": 80, "shutdown": 124, "state": 144, "hand_state": 164}
    assert expected.items() <= ssl_offsets(image).items()
    assert bio_flags_offset(image) == 48
