# SPDX-License-Identifier: Apache-2.0
"""The algorithms of OpenSSL's default provider, or of one in a file of its own, with the static functions that carry them out.

A provider's dispatch table names its query function, which maps an operation number to a list of OSSL_ALGORITHM; each entry
leads to an OSSL_DISPATCH table, number to function. The query function is followed with each operation number, so a list is
never taken for another operation's, though their dispatch numbers look alike. The default provider is distinguished from the
base, legacy and FIPS providers by the property string of its entries. Layouts: openssl/core.h, numbers:
openssl/core_dispatch.h.
"""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.code.evaluate import returned
from ssllatency.code.returns import returned_address
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image

OPERATIONS = {"KEYMGMT": 10, "KEYEXCH": 11, "SIGNATURE": 12, "ASYM_CIPHER": 13, "KEM": 14}
OF_PRIVATE_KEYS = ("SIGNATURE", "ASYM_CIPHER")
PROPERTIES = "provider=default"
MAX_PROVIDERS = 16
MAX_ALGORITHMS = 256
MAX_FUNCTIONS = 64
_QUERY_OPERATION = 1027
_ALGORITHM_SIZE = 32
_DISPATCH_SIZE = 16


@dataclass(frozen=True)
class Algorithm:
    """An algorithm as the provider offers it for one operation.

    `operation` is "SIGNATURE", "KEYEXCH", "KEM", "ASYM_CIPHER" or "KEYMGMT"; `names` are all its names and object identifiers;
    `functions` maps the number of a function in core_dispatch.h to its address.
    """

    operation: str
    names: tuple[str, ...]
    functions: dict[int, int]


def algorithms(image: Image, properties: str = PROPERTIES) -> tuple[Algorithm, ...]:
    """The default provider's algorithms for the operations above; empty where the image has no such provider. With "" as the
    properties those of the first provider in it that works with private keys, whatever that is called.

    ElfError where the image's relocations are damaged.
    """
    for query in _query_functions(image):
        algorithms = tuple(each for operation in OPERATIONS for each in _offered(image, query, operation, properties))
        if algorithms and (properties or any(each.operation in OF_PRIVATE_KEYS for each in algorithms)):
            return algorithms
    return ()


def unreadable(image: Image, operation: str) -> bool:
    """Whether it can't be told what the providers in the image offer for an operation, of which no algorithm is known."""
    queries = list(_query_functions(image))
    return not queries or any(set(returned(image, query, rsi=OPERATIONS[operation])) != {0} for query in queries)


def _query_functions(image: Image) -> Iterator[int]:
    """The query functions of all providers in the image."""
    places = image.find_word(_QUERY_OPERATION)
    queries = (image.pointer(place + 8) for place in places)
    for query, _ in zip((query for query in queries if query and image.executable(query)), range(MAX_PROVIDERS), strict=False):
        yield query


def _offered(image: Image, query: int, operation: str, wanted: str) -> Iterator[Algorithm]:
    """The algorithms that the provider with this query function offers for `operation`, those with these properties. One that
    isn't set up, as that of FIPS at first, offers none."""
    table = returned_address(image, query, or_null=True, rsi=OPERATIONS[operation])
    if table is None:
        return
    for entry in range(table, table + MAX_ALGORITHMS * _ALGORITHM_SIZE, _ALGORITHM_SIZE):
        names, properties, functions = (image.pointer(entry + offset) for offset in (0, 8, 16))
        if not names or not properties or not functions:
            return
        if wanted in ("", image.text(properties).split(",")[0]):
            yield Algorithm(operation, tuple(image.text(names).split(":")), _functions(image, functions))


def _functions(image: Image, table: int) -> dict[int, int]:
    functions: dict[int, int] = {}
    for entry in range(table, table + MAX_FUNCTIONS * _DISPATCH_SIZE, _DISPATCH_SIZE):
        number = image.constant(entry, 4)
        target = image.pointer(entry + 8)
        if not number:
            break
        if target is not None and image.executable(target):
            functions.setdefault(number, target)
    return functions
