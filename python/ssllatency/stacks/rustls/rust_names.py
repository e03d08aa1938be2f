# SPDX-License-Identifier: Apache-2.0
"""The symbols of Rust's functions: their names as compilers mangle them, in the older way (_ZN…E) and in the newer (_R…)."""

from __future__ import annotations

import re

_HASH = r"17h[0-9a-f]{16}E"
_UNIT = r"(?:\.llvm\.\d{1,24})?"  # of a function that was moved to another unit of the compiler's


def _lengthened(names: str) -> str:
    """Each name of a path with its length in front of it, as both ways have it."""
    return "".join(f"{len(name)}{name}" for name in names.split("::"))


def method_symbol(name: str) -> re.Pattern[bytes]:
    """A pattern of the symbol of "package::module::Type::method", whatever trait the method is of and wherever that lies."""
    type_name, _, method = name.rpartition("::")
    module, _, inner = type_name.rpartition("::")
    dotted, last = re.escape(type_name.replace("::", "..")), _lengthened(method)
    old = rf"_ZN\d{{1,3}}_\$LT\${dotted}\$u20\$as\$u20\$[\w.$]{{1,160}}\$GT\${last}{_HASH}"
    new = rf"_RNvX\w{{1,40}}_{_lengthened(module)}\w{{1,12}}_?{_lengthened(inner)}\w{{1,160}}{last}"
    return re.compile(rf"(?:{old}|{new}){_UNIT}".encode())


def generic_symbol(path: str) -> re.Pattern[bytes]:
    """A pattern of the symbol of a function with parameters that are types, whatever these are."""
    package, _, inner = path.partition("::")
    older, first = _lengthened(path), _lengthened(package)
    # A name that ends in an underscore or begins with a digit isn't followed by its parameters alone in the newer way.
    new = rf"_RINv(?:Nt){{0,8}}Cs\w{{1,24}}_{first}{_lengthened(inner)}\w{{0,180}}"
    return re.compile(rf"(?:_ZN{older}{_HASH}|{new}){_UNIT}".encode())
