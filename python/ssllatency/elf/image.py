# SPDX-License-Identifier: Apache-2.0
"""One ELF image: its functions and their addresses, what its data points to, and the bytes of its code.

The file belongs to the traced process and is untrusted: it is parsed within bounds, never executed or loaded. For a damaged
file, methods raise ElfError, or behave as if the damaged part were missing. Everything is read on first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.elf import plt
from ssllatency.elf.headers import Headers
from ssllatency.elf.memory import Memory
from ssllatency.elf.relocations import Relocations
from ssllatency.elf.source import ElfError, ElfSource
from ssllatency.elf.symbols import DynamicSymbols, FunctionIndex, Symbol
from ssllatency.elf.unwind import Unwind

__all__ = ["ElfError", "Function", "Image"]

Range = tuple[int, int]

MAX_POINTERS = 65536
_DT_SONAME = 14


@dataclass(frozen=True)
class Function:
    """A function of an image.

    `address` is virtual, in the file's own numbering; `size` in bytes, 0 if unknown. `found` says how: "dynamic symbol",
    "symbol table", "mini debug info", "debug file", "RSA_METHOD", "EC_KEY_METHOD", "SSL_METHOD", "provider table",
    "errors raised", "panic locations". `debug_file` is the path of a debug file that it was found in, "" otherwise.
    """

    name: str
    address: int
    size: int
    found: str
    debug_file: str = ""


class Image:
    """One ELF image. `path` is where it was opened, `label` the path that people are shown, `machine` "x86-64" or "aarch64"."""

    def __init__(self, path: str, source: ElfSource, debug_roots: Sequence[str]) -> None:
        self.path = path
        self.label = source.label
        self.debug_roots = tuple(debug_roots)
        self._headers = Headers(source)
        self._memory = Memory(self._headers)
        self._dynamic = DynamicSymbols(self._headers, self._memory)
        self._unwind = Unwind(self._headers, self._memory)
        self.unnamed: dict[str, Function] = {}
        """Functions by the names that name_functions() has given them."""
        self.machine = self._headers.machine
        self.fixed = self._headers.fixed
        """Whether it is mapped at the addresses that it states, so that its code may hold them as they are."""
        self.build_id = self._headers.build_id

    @classmethod
    def open(cls, path: str | Path, *, label: str | None = None, debug_roots: Sequence[str] = ("/",)) -> Image:
        """The image in a private copy of the file `path`, which may be /proc/self/fd/N or /proc/PID/map_files/….

        `label` is the path as the target sees it (`path` if not given); it leads to debug files beside the image. `debug_roots`
        are the folders under which usr/lib/debug is searched, in this order. ElfError where it is no ELF image that can be
        traced.
        """
        return cls(str(path), ElfSource.copied(path, label or str(path)), debug_roots)

    @cached_property
    def soname(self) -> str:
        """The name under which programs link the library, "" if none."""
        offset = self._headers.dynamic.get(_DT_SONAME)
        return self._dynamic.string(offset) if offset else ""

    # Functions and symbols.

    def function(self, name: str) -> Function | None:
        """The function called `name`: named by the file itself, or by a debug file and confirmed by the file."""
        return self.own_function(name) or self.hinted_function(name)

    def own_function(self, name: str) -> Function | None:
        """The function that the file itself calls `name`: by a dynamic symbol, in .symtab or in .gnu_debugdata."""
        symbol = self._dynamic.find(name)
        if symbol and symbol.is_function:
            return self._function(symbol, "dynamic symbol")
        for how_found, functions in self._own_indexes():
            symbol = functions.find(name)
            if symbol:
                return self._function(symbol, how_found)
        return self.unnamed.get(name)

    def data_symbol(self, name: str) -> int | None:
        """The address of the data that a dynamic symbol of the file calls `name`."""
        symbol = self._dynamic.find(name)
        is_here = symbol and symbol.address and not symbol.is_function and self._memory.mapped(symbol.address)
        return symbol.address if symbol and is_here else None

    def names_matching(self, pattern: re.Pattern[bytes]) -> list[str]:
        """The names in .symtab, of functions, that are as a whole what the pattern describes."""
        return self._symbol_table.matching(pattern)

    def name_functions(self, functions: Mapping[str, Function]) -> None:
        """Takes these names for functions that something in the file tells but its symbols, in place of those taken before.
        Symbols of the file's own come first."""
        self.unnamed = dict(functions)

    def hinted_function(self, name: str) -> Function | None:
        """The function that a separate debug file calls `name`, where the unwind tables of the image know a function there.

        The writer of a debug file may not be allowed to write the image. So only the name is taken from it: the address must be
        confirmed by the unwind tables, and the size, which says how far to read, comes from them.
        """
        symbol = self._hint(name)
        bounds = self._unwind.bounds(symbol.address) if symbol else None
        if symbol is None or bounds is None or not self._begins(symbol.address, bounds):
            return None
        return Function(name, symbol.address, bounds[1] - bounds[0], "debug file", self.debug_file)

    def unconfirmed(self, name: str) -> bool:
        """Whether a debug file calls something `name` that nothing in the image confirms as a function."""
        return self._hint(name) is not None and self.hinted_function(name) is None

    def _hint(self, name: str) -> Symbol | None:
        return self._debug_file[1].find(name) if self._debug_file else None

    def _begins(self, address: int, bounds: Range) -> bool:
        return bounds[0] == address and self.executable(address) and not self.is_part(address)

    def _function(self, symbol: Symbol, how_found: str) -> Function | None:
        """None for an address that the image doesn't map as code: no probe could be set there."""
        return Function(symbol.name, symbol.address, symbol.size, how_found) if self.executable(symbol.address) else None

    def _own_indexes(self) -> Iterator[tuple[str, FunctionIndex]]:
        """Each is read only when the one before it did not have the name."""
        yield "symbol table", self._symbol_table
        yield "mini debug info", self._mini_debug

    @cached_property
    def _symbol_table(self) -> FunctionIndex:
        return FunctionIndex(self._headers)

    @cached_property
    def _mini_debug(self) -> FunctionIndex:
        from ssllatency.elf.debugfiles import mini_debug_functions  # lzma, only where it is needed

        return mini_debug_functions(self._headers) or FunctionIndex(None)

    @cached_property
    def _debug_file(self) -> tuple[str, FunctionIndex] | None:
        from ssllatency.elf.debugfiles import debug_file_functions

        return debug_file_functions(self._headers, self.label, self.debug_roots)

    @property
    def debug_file(self) -> str:
        """The path of the separate debug file that belongs to the image, "" if there is none."""
        return self._debug_file[0] if self._debug_file else ""

    def debug_places(self) -> Iterator[str]:
        """The paths at which a debug file of the image is looked for, as its process sees them, best first."""
        from ssllatency.elf.debugfiles import debug_link, places

        return (place.shown for place in places(self.build_id, debug_link(self._headers), self.label, ("/",)))

    @property
    def has_unwind_tables(self) -> bool:
        """Whether these tell any function: without them no debug file is believed."""
        return not self._unwind.is_empty

    def function_bounds(self, address: int) -> tuple[int, int] | None:
        """[start, end) of the function, or the part of a split one, that contains `address`, by the unwind tables."""
        return self._unwind.bounds(address)

    def functions_at(self, addresses: Collection[int]) -> list[Range]:
        """The functions that begin at these addresses."""
        bounds = (self.function_bounds(address) for address in addresses)
        return [each for each, address in zip(bounds, addresses, strict=True) if each and each[0] == address]

    def is_part(self, address: int) -> bool:
        """Whether the range at `address` is a part that the compiler split off a function, with the frame already set up."""
        return self._unwind.is_part(address)

    # Bytes.

    def file_offset(self, address: int) -> int:
        """The offset in the file of the byte mapped at `address`; ElfError if the file has none."""
        return self._memory.file_offset(address)

    def executable(self, address: int) -> bool:
        """Whether `address` lies in code of the file."""
        return self._memory.executable(address)

    def code(self, address: int, size: int) -> bytes:
        """The bytes at `address`, at most `size` and not past the end of the segment; ElfError if the file has none."""
        return self._memory.read_up_to(address, max(0, size))

    def constant(self, address: int, size: int) -> int | None:
        """The unsigned little-endian number of `size` bytes at `address`, None where the image has none."""
        try:
            return int.from_bytes(self._memory.read(address, size), "little")
        except ElfError:
            return None

    def text(self, address: int) -> str:
        """The NUL-terminated text of at most 255 bytes at `address`, "" where there is none."""
        text = self._memory.text(address)
        return text.decode("ascii", "replace") if text else ""

    # Data.

    @cached_property
    def _relocations(self) -> Relocations:
        return Relocations(self._headers, self._memory, self._dynamic)

    def pointer(self, address: int) -> int | None:
        """The address that the 8 bytes at `address` hold once the image is loaded, in the file's own numbering.

        None for an import, for 0, for what is no address in this image, and in a position-independent image for a word
        without relocation. ElfError where the relocations are damaged.
        """
        value = self._relocations.target(address)
        if value is None and self.fixed and not self._relocations.covers(address):
            value = self.constant(address, 8)
        return value if value and self._memory.mapped(value) else None

    def pointer_name(self, address: int) -> str:
        """The name of the dynamic symbol, imported or not, whose address the 8 bytes at `address` hold once the image is
        loaded, "" for none. ElfError where the relocations are damaged."""
        symbol = self._relocations.symbol(address)
        return symbol.name if symbol else ""

    def constant_once_loaded(self, start: int, end: int) -> bool:
        """Whether nothing can be written to [start, end) once the image's relocations are done."""
        segments = (segment for segment in self._headers.segments if segment.p_type == "PT_GNU_RELRO")
        return any(segment.p_vaddr <= start and end <= segment.p_vaddr + segment.p_memsz for segment in segments)

    def pointers_to(self, address: int) -> Sequence[int]:
        """The addresses of the data words that hold `address`, in ascending order. ElfError for damaged relocations."""
        places = self._relocations.pointers_to(address)
        if not self.fixed:
            return places
        raw = self.find_word(address)
        return sorted({*places, *(pointer for pointer in raw if not self._relocations.covers(pointer))})

    def numbered_pointers(self, wanted: Callable[[int], bool]) -> Iterator[tuple[int, int, int]]:
        """(address, number, target) of the 16-byte pairs of a number that is `wanted` and a pointer into the image.

        In ascending order, MAX_POINTERS at most. ElfError for damaged relocations.
        """
        places = [place - 8 for place in self._relocations.places()]
        if self.fixed:
            places = sorted({*places, *self._capped(self._memory.numbered_words(wanted))})
        words = self._memory.data_words(places).items()
        for place in self._capped(place for place, word in words if wanted(word) and not self._relocations.covers(place)):
            number, target = self.constant(place, 8), self.pointer(place + 8)
            if number is not None and target is not None:
                yield place, number, target

    def find_word(self, value: int) -> list[int]:
        """The aligned addresses whose 8 bytes in the file are `value`, MAX_POINTERS at most."""
        if not 0 <= value < 1 << 64:
            return []
        return list(self._capped(self._memory.find(value.to_bytes(8, "little"), alignment=8)))

    def find_string(self, text: bytes) -> Iterator[int]:
        """The addresses of `text` with a NUL after it, as a string or as the end of one, MAX_POINTERS at most."""
        return self._capped(self._memory.find(text + b"\0"))

    @staticmethod
    def _capped(addresses: Iterator[int]) -> Iterator[int]:
        return (address for address, _ in zip(addresses, range(MAX_POINTERS), strict=False))

    def pieces(self, overlap: int) -> Iterator[tuple[int, bytes]]:
        """The bytes of the image as (address, piece), each piece overlapping the next by `overlap` bytes."""
        return self._memory.pieces(overlap)

    def code_pieces(self, overlap: int, within: Range | None = None) -> Iterator[tuple[int, bytes]]:
        """The bytes of the image's code as (address, piece), or of the part of it in [start, end)."""
        return self._memory.code_pieces(overlap, within)

    def symbol_slots(self, names: Collection[str]) -> dict[int, str]:
        """The words that hold the addresses of the dynamic symbols called `names`. ElfError for damaged relocations."""
        return self._relocations.symbol_slots(names)

    def plt_target(self, address: int) -> str | None:
        """The name of the dynamic symbol, imported or not, that the PLT stub at `address` jumps to; None if there is none."""
        if not self.executable(address):
            return None
        slot = plt.slot(self.code(address, plt.STUB_SIZE), address, self.machine)
        symbol = self._relocations.symbol(slot) if slot is not None else None
        return symbol.name if symbol and symbol.name else None
