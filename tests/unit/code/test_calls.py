# SPDX-License-Identifier: Apache-2.0
"""Where functions are called, and who names which source file: on small libraries in assembly and on this machine's libssl."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import build
from tests.fixtures.assembled import Assembled, assemble, function

from ssllatency.code import calls
from ssllatency.code.calls import calls_of, calls_to
from ssllatency.elf.image import Image
from ssllatency.stacks.source_files import file_names, places_naming

LIBSSL = Path("/usr/lib/x86_64-linux-gnu/libssl.so.3")


@pytest.fixture
def library(tmp_path: Path) -> Assembled:
    programs.needed(*build.TOOLS)
    text = function("f", "at_1: call wanted@PLT\nat_2: call *wanted@GOTPCREL(%rip)\ncall unwanted@PLT\nat_3: jmp wanted@PLT")
    text += function("own", "ret") + function("g", "at_4: call own\nat_5: call own@PLT\nat_6: {disp32} jmp own")
    text += function("hidden", "ret", binding=".local") + function("h", "at_7: call hidden\nret")
    return assemble(tmp_path, text)


def labels(library: Assembled, addresses: list[int]) -> list[str]:
    return [library.label(address) for address in addresses]


def test_calls_through_the_plt_the_got_and_directly(library: Assembled) -> None:
    found = calls_of(library.image, ["wanted", "own", "absent"])
    assert labels(library, found["wanted"]) == ["at_1", "at_2", "at_3"]
    assert labels(library, found["own"]) == ["at_4", "at_5", "at_6"]
    assert found["absent"] == []


def test_calls_of_an_address_and_of_part_of_the_code(library: Assembled) -> None:
    hidden, g = library.symbols["hidden"], library.symbols["g"]
    assert labels(library, calls_to(library.image, {hidden})[hidden]) == ["at_7"]
    assert calls_to(library.image, {hidden}, (g, hidden)) == {hidden: []}
    assert calls_to(library.image, set()) == {}


@pytest.mark.parametrize("most_indexed", [0, calls._MOST_INDEXED])
@pytest.mark.parametrize("most_calls", [0, calls._MOST_CALLS])
def test_the_calls_in_libssl_are_those_that_objdump_shows(
    monkeypatch: pytest.MonkeyPatch, most_indexed: int, most_calls: int
) -> None:
    monkeypatch.setattr(calls, "_MOST_INDEXED", most_indexed)
    monkeypatch.setattr(calls, "_MOST_CALLS", most_calls)
    if not LIBSSL.exists():
        pytest.skip(f"needs {LIBSSL} (Debian: apt-get install libssl3)")
    names = ("EVP_DigestSign", "X509_verify_cert", "CRYPTO_free", "SSL_get_options", "ERR_set_error")
    text = build.run("objdump", "-d", "--no-show-raw-insn", LIBSSL)
    shown = re.findall(r"^ +([0-9a-f]+):\t(?:call|jmp) +[0-9a-f]+ <(\w+)(?:@plt|@@\w[\w.]*)?>$", text, re.MULTILINE)
    expected = {name: [int(address, 16) for address, callee in shown if callee == name] for name in names}
    assert calls_of(Image.open(LIBSSL, debug_roots=()), names) == expected
    assert all(expected.values())


def test_code_that_names_a_librarys_source_files(tmp_path: Path) -> None:
    programs.needed(*build.TOOLS)
    text = function("f", "at_1: lea one(%rip),%rdi\nret") + function("g", "lea two(%rip),%rdi\nlea three(%rip),%rsi\nret")
    text += '.section .rodata\nzero: .asciz ""\none: .asciz "../ssl/statem/x.c"\ntwo: .asciz "openssl/x.c"\n'
    text += 'three: .asciz "/home/ssl/readme.txt"\nfour: .asciz "ssl/y.cc"\n.globl one, two, three, four\n'
    text += ".hidden one, two, three, four"
    library = assemble(tmp_path, text)
    names = file_names(library.image, "ssl")
    assert names == {library.symbols["one"], library.symbols["four"]}
    (place,) = places_naming(library.image, names)
    assert library.image.function_bounds(place) == library.image.function_bounds(library.symbols["f"])
    assert list(places_naming(library.image, set())) == []


def test_the_name_of_a_file_may_follow_bytes_that_end_no_text(tmp_path: Path) -> None:
    """As where a compiler puts a table of constants in front of it."""
    programs.needed(*build.TOOLS)
    text = function("f", "ret") + '.section .rodata\nzero: .asciz ""\n.byte 0x9c,0x80\none: .asciz "ssl/x.c"\n'
    text += '.byte 0x9c\ntwo: .asciz "../openssl/ssl/y.c"\n.ascii "  "\nthree: .asciz "ssl/z.c"\n'
    text += '.byte 0x9c\n.asciz "boringssl/z.c"\n.byte 0x9c\n.asciz "own-ssl/z.c"\nspaces: .asciz "/my files/ssl/u.c"\n'
    text += ".globl one, two, three, spaces\n.hidden one, two, three, spaces"
    library = assemble(tmp_path, text)
    wanted = {library.symbols[name] for name in ("one", "two", "three", "spaces")}
    in_between = library.symbols["spaces"] + len("/my ")
    assert file_names(library.image, "ssl") - {in_between, library.symbols["three"] - 2} == wanted
