# SPDX-License-Identifier: Apache-2.0
"""The places at which libcrypto keeps what was signed of a certificate, as it came, and the signature: from its own templates
of ASN.1."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ssllatency.code.returns import returned_address
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import field_returned

# include/openssl/asn1t.h, the same from 1.1.1 on: byte offsets in ASN1_ITEM, ASN1_TEMPLATE and ASN1_AUX.
_TEMPLATES, _TEMPLATE_COUNT, _AUX, _NAME = 16, 24, 32, 48
_SEQUENCE, _TAG = 1, 16  # ASN1_ITYPE_SEQUENCE, and V_ASN1_SEQUENCE behind it
_TEMPLATE_SIZE, _FIELD_OFFSET, _FIELD_NAME = 40, 16, 24
_AUX_FLAGS, _AUX_ENCODING = 8, 32
_EMBEDDED = 1 << 12  # ASN1_TFLG_EMBED
_KEEPS_ENCODING = 2  # ASN1_AFLG_ENCODING
_POINTER = 8
_MOST_TEMPLATES, _MOST_NAMES = 16, 64  # places of a name that are looked for
_LARGEST = 1 << 12  # an X509 is smaller


@dataclass(frozen=True)
class _Template:
    flags: int
    offset: int


def certificate_offsets(image: Image) -> dict[str, int]:
    """Byte offsets: "x509_encoding" and "x509_signature" in X509, of the ASN1_ENCODING of its cert_info and of the
    ASN1_STRING that is its signature; "stack_count" in a STACK_OF(X509), of the number of its members. Empty where the image
    doesn't show all of them, or keeps certificates in another way. ElfError for damaged relocations."""
    fields = dict(_templates(image, "X509_it"))
    info, signature = fields.get("cert_info"), fields.get("signature")
    encoding, count = _encoding_offset(image, "X509_CINF_it"), field_returned(image, "OPENSSL_sk_num", 1)
    if info is None or signature is None or encoding is None or count is None:
        return {}
    if not (info.flags & signature.flags & _EMBEDDED) or not max(info.offset + encoding, signature.offset) < _LARGEST:
        return {}
    return {"x509_encoding": info.offset + encoding, "x509_signature": signature.offset, "stack_count": count[0]}


def _item(image: Image, name: str) -> int | None:
    """The address of the ASN1_ITEM: since OpenSSL 3.0 a function of that name returns it, before it bore the name itself. Where
    functions have no symbols, the one that has the name in itself."""
    function = image.function(name)
    if function is None and image.unnamed:
        return _named_item(image, name.removesuffix("_it").encode())
    return returned_address(image, function.address) if function else image.data_symbol(name)


def _named_item(image: Image, name: bytes) -> int | None:
    """The address of the one ASN1_ITEM of a sequence with this name."""
    texts = islice(image.find_string(name), _MOST_NAMES)
    starts = {place - _NAME for text in texts for place in image.pointers_to(text)}
    items = {at for at in starts if image.constant(at, 1) == _SEQUENCE and image.constant(at + _POINTER, 8) == _TAG}
    return items.pop() if len(items) == 1 else None


def _templates(image: Image, name: str) -> Iterator[tuple[str, _Template]]:
    """The members of the structure, with their names."""
    item = _item(image, name)
    first = image.pointer(item + _TEMPLATES) if item else None
    count = image.constant(item + _TEMPLATE_COUNT, 8) if item else None
    for number in range(min(count or 0, _MOST_TEMPLATES) if first else 0):
        template = (first or 0) + number * _TEMPLATE_SIZE
        flags, offset = image.constant(template, 8), image.constant(template + _FIELD_OFFSET, 8)
        text = image.pointer(template + _FIELD_NAME)
        if text and flags is not None and offset is not None:
            yield image.text(text), _Template(flags, offset)


def _encoding_offset(image: Image, name: str) -> int | None:
    """The offset at which the structure keeps the bytes that it was read from."""
    item = _item(image, name)
    aux = image.pointer(item + _AUX) if item else None
    flags, offset = (image.constant(aux + _AUX_FLAGS, 4), image.constant(aux + _AUX_ENCODING, 4)) if aux else (None, None)
    return offset if flags and flags & _KEEPS_ENCODING else None
