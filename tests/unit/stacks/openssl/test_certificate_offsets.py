# SPDX-License-Identifier: Apache-2.0
"""Where libcrypto keeps a certificate's bytes: read from templates of ASN.1 that are made for it, and from those that ship."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build

from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.certificates import certificate_offsets

SHIPPED = {"x509_encoding": 112, "x509_signature": 152, "stack_count": 0}

# asn1t.h, as far as it matters. EMBEDDED, KEPT and SIGNATURE are what the cases change.
_SOURCE = """
struct item;
struct template { unsigned long flags; long tag; unsigned long offset; const char *name; const struct item *(*item)(void); };
struct aux { void *app; int flags, ref_offset, ref_lock; void *callback; int enc_offset; };
struct item {
	char type; long utype; const struct template *templates; long count; const void *funcs; long size; const char *name;
};
struct info { char fields[0x68]; void *encoding; };
struct x509 { long before; struct info info; char between[24]; int signature[4]; };
static const struct template of_info[] = {{0, 0, 8, "serial", 0}};
static const struct aux info_aux = {0, KEPT, 0, 0, 0, __builtin_offsetof(struct info, encoding)};
static const struct item info_item = {1, 16, of_info, 1, &info_aux, sizeof(struct info), "X509_CINF"};
const struct item *X509_CINF_it(void)
{
	return &info_item;
}
static const struct template of_x509[] = {
	{EMBEDDED, 0, __builtin_offsetof(struct x509, info), "cert_info", X509_CINF_it},
	{EMBEDDED, 0, 3, "sig_alg", 0},
	{EMBEDDED, 0, __builtin_offsetof(struct x509, signature), SIGNATURE, 0},
};
static const struct item x509_item = {1, 16, of_x509, COUNT, 0, sizeof(struct x509), "X509"};
const struct item *X509_it(void)
{
	return &x509_item;
}
struct stack { long before; int num; };
int OPENSSL_sk_num(const struct stack *stack)
{
	return stack ? stack->num : -1;
}
"""
_USUAL = {"EMBEDDED": "0x1000", "KEPT": "2", "SIGNATURE": '"signature"', "COUNT": "3"}


def offsets(folder: Path, **changed: str) -> dict[str, int]:
    source = folder / "templates.c"
    source.write_text(_SOURCE)
    library = folder / "templates.so"
    flags = [f"-D{name}={value}" for name, value in {**_USUAL, **changed}.items()]
    build.run("gcc", "-O2", "-shared", "-fPIC", *flags, "-o", library, source)
    return certificate_offsets(Image.open(library))


def test_offsets_are_those_of_the_structures(tmp_path: Path) -> None:
    assert offsets(tmp_path) == {"x509_encoding": 8 + 0x68, "x509_signature": 8 + 0x70 + 24, "stack_count": 8}


@pytest.mark.parametrize("changed", [{"EMBEDDED": "0"}, {"KEPT": "1"}, {"SIGNATURE": '"other"'}, {"COUNT": "2"}])
def test_what_is_kept_in_another_way_is_absent(tmp_path: Path, changed: dict[str, str]) -> None:
    """Behind pointers, without the bytes as they came, under other names, or beyond the templates that there are."""
    assert offsets(tmp_path, **changed) == {}


@pytest.mark.parametrize("name", ["libcrypto-1.1-x86-64", "libcrypto-3.5-x86-64", "libcrypto-3.5-arm64"])
def test_offsets_in_a_library_as_it_ships(name: str) -> None:
    """Since 3.0 functions return the templates' addresses; in 1.1.1 they bear those names themselves."""
    assert certificate_offsets(Image.open(foreign.needed(foreign.find(name)))) == SHIPPED


def test_an_image_without_templates_tells_nothing(shapes: Path) -> None:
    assert certificate_offsets(Image.open(shapes)) == {}
