# SPDX-License-Identifier: Apache-2.0
"""Functions that leave for one of several variants of themselves, each for another kind of processor.

Intel's libraries are made so: `mbx_x25519_mb8` jumps through a table that has `ini_mbx_x25519_mb8`, which looks at the
processor when it is first called, and `k1_mbx_x25519_mb8` and `l9_mbx_x25519_mb8`, which do the work. No comparison bounds the
index, which another function of the library sets. So the table's own relocations do: its entries are those that name a variant,
all in one row, and no other word around it names one more. The table is constant once the library is loaded.
"""

from __future__ import annotations

from ssllatency.elf.image import ElfError, Image

MAX_VARIANTS = 16
_WORD = 8


def variants(image: Image, function: int, table: int) -> list[int] | None:
    """The addresses in the table of variants at `table` of the function at `function`, or of the function that this is a
    variant of itself; None where it isn't certain that there are no others."""
    try:
        names = {index: image.pointer_name(table + index * _WORD) for index in range(-MAX_VARIANTS, MAX_VARIANTS + 1)}
        name = names[0].partition("_")[2]
        entries = [index for index, entry in names.items() if name and entry.partition("_")[2] == name]
        if len(entries) < 2 or entries != list(range(entries[0], entries[0] + len(entries))):
            return None
        if {-MAX_VARIANTS, MAX_VARIANTS} & {*entries}:  # the row may go on
            return None
        targets = [target for index in entries if (target := image.pointer(table + index * _WORD)) is not None]
    except ElfError:
        return None
    common = image.own_function(name)
    belongs = common is not None and function in (common.address, *targets)
    whole = len(image.functions_at(targets)) == len(entries)
    constant = image.constant_once_loaded(table + entries[0] * _WORD, table + (entries[-1] + 1) * _WORD)
    return targets if belongs and whole and constant else None
