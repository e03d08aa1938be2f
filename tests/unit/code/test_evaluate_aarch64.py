# SPDX-License-Identifier: Apache-2.0
"""What small aarch64 functions return, and what Debian's arm64 libraries tell of OpenSSL's structures and providers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import foreign, programs
from tests.fixtures.assembled_aarch64 import AssembledAarch64, assemble, function

from ssllatency.code.evaluate import followed, returned, returned_in_cases
from ssllatency.code.returns import returned_address
from ssllatency.code.values import Assumptions, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import Image
from ssllatency.stacks.implementations import library_version
from ssllatency.stacks.openssl.accessors import bio_flags_offset, ssl_offsets
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method, ssl_methods
from ssllatency.stacks.openssl.tables.providers import Algorithm, algorithms

Assembler = Callable[[str], AssembledAarch64]
ARGUMENT = SymbolicAddress("argument", 0)
MASK = (1 << 64) - 1


@pytest.fixture
def assembled(tmp_path: Path) -> Assembler:
    programs.needed("clang")
    return lambda body: assemble(tmp_path, function("f", body) + function("g", "ret"))


def results(code: AssembledAarch64, **arguments: Value) -> set[Value]:
    return set(returned(code.image, code.symbols["f"], **arguments))


FRAME = "paciasp\nstp x29, x30, [sp, #-32]!\nmov x29, sp\n"
LEAVE = "ldp x29, x30, [sp], #32\nautiasp\nmov x1, #0\nret"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("ldr w0, [x0, #40]\nret", LoadedField((40,), 4)),
        ("bti c\nldr x0, [x0, #2320]\nldr x0, [x0, #760]\nret", LoadedField((2320, 760))),
        ("ldrb w0, [x0, #3]\nret", LoadedField((3,), 1)),
        ("ldur w0, [x0, #-4]\nret", LoadedField((-4,), 4)),
        ("add x0, x0, #4080\nldr x0, [x0, #16]\nret", LoadedField((4096,))),
        ("ldp x1, x0, [x0, #16]\nret", LoadedField((24,))),
        ("ldr w0, [x0, #8]\nand w0, w1, w0\nret", LoadedField((8,), 4, whole=False)),
        ("ldr w0, [x0, #8]\nand w0, w0, #0xff\nret", LoadedField((8,), 1)),
        ("ldr x0, [x0, #8]\nand w0, w0, #0xffff\nret", LoadedField((8,), 2)),
        ("ldr w0, [x0, #8]\nand w0, w0, #0xff00\nret", LoadedField((8,), 4, whole=False)),
        ("ldr w0, [x0, #8]\nand w0, w0, #0xff00ff\nret", LoadedField((8,), 4, whole=False)),
        ("ldr x0, [x0, #8]\nmov w0, w0\nldr x0, [x0, #8]\nret", None),
        ("ldr w0, [x0, #8]\nuxth w0, w0\nret", LoadedField((8,), 2)),
        ("ldr w0, [x0, #8]\nand w0, w0, #7\nret", LoadedField((8,), 4, whole=False)),
        (f"{FRAME}str x19, [sp, #16]\nmov x19, x0\nldr x0, [x19, #80]\nldr x19, [sp, #16]\n{LEAVE}", LoadedField((80,))),
        (f"{FRAME}str x0, [x29, #24]\nldr x0, [sp, #24]\nldr x0, [x0, #8]\n{LEAVE}", LoadedField((8,))),
        ("mov w0, #0x1234\nmovk w0, #0x5, lsl #16\nret", 0x51234),
        ("mov w1, #10\nubfiz x0, x1, #1, #32\nret", 20),
        ("mov x1, #-1\nubfiz x0, x1, #4, #8\nret", 0xFF0),
        ("mov x1, #-1\nubfiz w0, w1, #24, #8\nret", 0xFF000000),
        ("mov w1, #0xf8\nsbfiz x0, x1, #4, #8\nret", -0x80 & MASK),
        ("mov w1, #3\nlsl w0, w1, #31\nret", 1 << 31),
        ("ldr w1, [x0, #8]\nubfiz x0, x1, #1, #32\nret", None),
        (
            "mov w1, #18\nubfiz x3, x1, #1, #32\nadd x1, x3, w1, uxtw\nadd x1, x0, x1, lsl #3\nldr x0, [x1, #8]\nret",
            LoadedField((440,)),
        ),
        ("mov x0, #-1\nret", MASK),
        ("mov w0, #-1\nret", 0xFFFFFFFF),
        ("mov w1, #12\nsub w0, w1, #20\nret", 0xFFFFFFF8),
        ("mov x1, #12\nmov x2, #3\nadd x0, x1, x2, lsl #4\nret", 60),
        ("mov x1, #0x1ff\nmov x2, #1\nadd x0, x2, w1, sxtb #2\nret", MASK - 2),
        ("mov w1, #0xf0\neor w0, w1, #1\nret", 0xF1),
        ("mov x1, #-1\nand x0, x1, #0x3ff80\nret", 0x3FF80),
        ("orr x0, xzr, #0x5555555555555555\nret", 0x5555555555555555),
        ("orr w0, wzr, #0xf000000f\nret", 0xF000000F),
        ("orr x0, xzr, #0x8000000000000001\nret", 1 << 63 | 1),
        ("orr x0, xzr, #0xe0e0e0e0e0e0e0e0\nret", 0xE0E0E0E0E0E0E0E0),
        ("mov w1, #0xf0\nmov w0, #1\ntst w1, #0xf\nb.eq 1f\nmov w0, #2\n1: ret", 1),
        ("mov w1, #0xf0\nmov w2, #0x3c\nand w0, w1, w2\nret", 0x30),
        ("mov w1, #0xf0\nmov w2, #0x3c\norr w0, w1, w2\nret", 0xFC),
        ("mov x1, #0x80\nsxtb x0, w1\nret", MASK - 0x7F),
        ("mov x1, #0x180\nlsr x0, x1, #4\nret", 0x18),
        ("mrs x0, tpidr_el0\nret", None),
        ("stp x0, x1, [sp, #-16]!\nldr x0, [sp], #16\nret", ARGUMENT),
        ("bl g\nret", None),
        ("ldr x1, [x0]\nbr x1", None),
        ("brk #1", None),
    ],
)
def test_one_value(assembled: Assembler, body: str, value: Value) -> None:
    assert results(assembled(body), rdi=ARGUMENT) == {value}


@pytest.mark.parametrize(
    ("body", "of"),
    [
        ("cmp w1, #3\nmov w0, #7\nmov w2, #9\ncsel w0, w0, w2, eq\nret", {3: 7, 4: 9}),
        ("cmp w1, #3\ncset w0, hi\nret", {3: 0, 4: 1}),
        ("mov w2, #4\ncmp w1, #3\ncsneg w0, w2, w2, lt\nret", {2: 4, 3: 0xFFFFFFFC}),
        ("mov w2, #4\ncmp w1, #3\ncsinv w0, w2, w2, ne\nret", {2: 4, 3: 0xFFFFFFFB}),
        ("mov w0, #1\ncmp w1, #5\nb.gt 1f\nmov w0, #2\n1: ret", {5: 2, 6: 1, 0xFFFFFFFF: 2}),
        ("mov w0, #1\nsubs w1, w1, #5\nb.mi 1f\nmov w0, #2\n1: ret", {4: 1, 5: 2}),
        ("mov w0, #1\ncbz w1, 1f\nmov w0, #2\n1: ret", {0: 1, 1 << 32: 1, 1: 2}),
        ("mov w0, #1\ntbnz w1, #3, 1f\nmov w0, #2\n1: ret", {8: 1, 7: 2}),
        ("mov w0, #1\ntst w1, w1\nb.eq 1f\nmov w0, #2\n1: ret", {0: 1, 5: 2}),
        ("mov w0, #1\ncmp w1, #3\nccmp w1, #7, #4, gt\nb.eq 1f\nmov w0, #2\n1: ret", {2: 1, 3: 1, 5: 2, 7: 1, 8: 2}),
        ("mov w0, #1\nmov w2, #7\ncmp w1, #3\nccmp w1, w2, #0, ne\nb.ne 1f\nmov w0, #2\n1: ret", {3: 1, 7: 2, 8: 1}),
        ("mov w0, #1\ncmp w1, #3\nccmp w1, #7, #8, ne\nb.lt 1f\nmov w0, #2\n1: ret", {3: 1, 6: 1, 8: 2}),
        ("mov w0, #1\ncmp w1, #3\nccmp w1, #7, #2, ne\nb.hi 1f\nmov w0, #2\n1: ret", {3: 1, 6: 2, 8: 1}),
        ("mov w4, #9\ncmp w1, #3\nccmp w1, #7, #4, gt\nmov w0, w4\nret", {3: 9, 8: 9}),
        ("adr x2, 2f\nldrh w1, [x2, w1, uxtw #1]\nadr x2, 1f\nadd x1, x2, w1, sxth #2\nbr x1\n"
         "1: mov w0, #1\nret\n3: mov w0, #2\nret\n2: .hword 0, (3b-1b)/4", {0: 1, 1: 2}),
    ],
)  # fmt: skip
def test_value_that_depends_on_the_argument(assembled: Assembler, body: str, of: dict[int, int]) -> None:
    code = assembled(body)
    assert {value: results(code, rsi=value) for value in of} == {value: {result} for value, result in of.items()}


def test_both_ways_where_a_condition_is_unknown(assembled: Assembler) -> None:
    code = assembled("ldr w1, [x0]\ncbnz w1, 1f\nldr w0, [x0, #8]\nret\n1: mov w0, #0\nret")
    assert results(code, rdi=ARGUMENT) == {LoadedField((8,), 4), 0}
    read = followed(code.image, code.symbols["f"], {"rdi": ARGUMENT}).fields
    assert read == {LoadedField((0,), 4), LoadedField((8,), 4)}
    compared = "ldr w1, [x0]\ncmp w1, #3\nccmp w1, #7, #4, gt\nb.eq 1f\nmov w0, #2\nret\n1: mov w0, #1\nret"
    assert results(assembled(compared), rdi=ARGUMENT) == {1, 2}
    select = assembled("ldr w1, [x0]\ncmp w1, #0\nldr w2, [x0, #4]\ncsel w0, w2, wzr, ne\nret")
    assert results(select, rdi=ARGUMENT) == {LoadedField((4,), 4), 0}


def test_the_stacks_guard_is_what_it_was(assembled: Assembler) -> None:
    """GCC clears the register that it compared with: nothing else is compared so."""
    compares, ends = "ldr x2, [sp, #8]\nldr x3, [x1]\nsubs x2, x2, x3", "b.ne 1f\nmov w0, #1\nret\n1: mov w0, #2\nret"
    assert results(assembled(f"{compares}\nmov x3, #0\n{ends}")) == {1}
    for other in ("nop", "mov x2, #0", "mov x3, #1"):
        assert results(assembled(f"{compares}\n{other}\n{ends}")) == {1, 2}


@pytest.mark.parametrize(
    "body",
    [
        "ldr x0, [x0, #8]\ncbz x0, 1f\nldr x0, [x0, #24]\n1: ret",
        "ldr x0, [x0, #8]\ncbnz x0, 1f\nret\n1: ldr x0, [x0, #24]\nret",
        "ldr x0, [x0, #8]\ncmp x0, #0\nb.eq 1f\nldr x0, [x0, #24]\n1: ret",
        "ldr x1, [x0, #8]\nmov x2, #0\ncbz x1, 1f\nldr x2, [x1, #24]\n1: cmp x1, #0\ncsel x0, x1, x2, eq\nret",
    ],
)
def test_field_that_is_known_to_be_zero_on_one_way(assembled: Assembler, body: str) -> None:
    assert results(assembled(body), rdi=ARGUMENT) == {LoadedField((8, 24)), 0}


def test_calls_and_what_is_stored(assembled: Assembler) -> None:
    code = assembled(f"{FRAME}ldr w2, [x0, #4]\nstr w2, [x1, #8]\nldrh w0, [x0, #6]\nbl g\n{LEAVE.replace('ret', 'b g')}")
    seen = followed(code.image, code.symbols["f"], {"rdi": ARGUMENT, "rsi": SymbolicAddress("there", 0)})
    assert seen.stores == [(SymbolicAddress("there", 8), LoadedField((4,), 4))]
    assert {(call.target, call.arguments[0]) for call in seen.calls} == {
        (code.symbols["g"], LoadedField((6,), 2)),
        (code.symbols["g"], None),
    }
    through = assembled("ldr x8, [x0, #24]\nldr x8, [x8, #120]\nbr x8")
    assert [call.target for call in followed(through.image, through.symbols["f"], {"rdi": ARGUMENT}).calls] == [
        LoadedField((24, 120))
    ]


@pytest.mark.parametrize("call", ["bl g", "adr x1, g\nblr x1"])
def test_what_a_call_is_given_to_return(assembled: Assembler, call: str) -> None:
    code = assembled(f"{FRAME}{call}\nadd w0, w0, #1\n{LEAVE}")
    cases = [Assumptions(calls={"g": 4}), Assumptions(calls={"h": 4}), Assumptions(calls={"g": 9})]
    assert [{*each} for each in returned_in_cases(code.image, code.symbols["f"], cases)] == [{5}, {None}, {10}]


def test_what_a_field_is_given_to_hold(assembled: Assembler) -> None:
    code = assembled("ldr w1, [x0, #92]\nmov w0, #1\ncmp w1, #20\nb.eq 1f\nmov w0, #2\n1: ret")
    cases = [Assumptions({"rdi": ARGUMENT}, {(92,): number}) for number in (20, 21)]
    assert [*returned_in_cases(code.image, code.symbols["f"], cases)] == [[1], [2]]


def test_endless_code_ends(assembled: Assembler) -> None:
    assert results(assembled("1: add x0, x0, #1\nb 1b")) == {None}
    assert results(assembled("1: cbz x0, 1b\ncbz x1, 1b\nb 1b")) == {None}


def test_address_in_code(assembled: Assembler) -> None:
    code = assembled("adr x0, 1f\nmov x1, #0\nret\n1: nop")
    assert returned_address(code.image, code.symbols["f"]) == code.symbols["f"] + 12


# Real libraries. Structures and tables are the same on both machines, which are both 64-bit and little-endian.


def pair(library: str, series: str) -> tuple[Image, Image]:
    """The library for arm64 and for x86-64."""
    names = (f"{library}-{series}-{machine}" for machine in ("arm64", "x86-64"))
    arm, other = (Image.open(foreign.needed(foreign.find(name))) for name in names)
    return arm, other


@pytest.mark.parametrize("series", ["1.1", "3.5"])
def test_offsets_are_those_of_the_other_machine(series: str) -> None:
    arm, other = pair("libssl", series)
    assert len(ssl_offsets(other)) >= 8
    assert ssl_offsets(arm) == ssl_offsets(other)
    arm, other = pair("libcrypto", series)
    assert bio_flags_offset(arm) == bio_flags_offset(other) is not None
    assert library_version(arm).startswith(f"OpenSSL {series}.")


def test_offsets_of_openssl_3_0() -> None:
    offsets = ssl_offsets(Image.open(foreign.needed(foreign.find("libssl-3.0-arm64"))))
    assert (offsets["rwstate"], offsets["rbio"], offsets["wbio"], offsets["state"]) == (0x28, 0x10, 0x18, 0x48)


@pytest.mark.parametrize("series", ["1.1", "3.5"])
def test_method_tables_have_the_slots_of_the_other_machine(series: str) -> None:
    for table in (rsa_method, ec_key_method):
        arm, other = (table(image) for image in pair("libcrypto", series))
        assert set(arm) == set(other) != set()
    arm_methods, other_methods = (ssl_methods(image) for image in pair("libssl", series))
    assert {name: set(arm_methods[name]) for name in arm_methods} == {name: set(other_methods[name]) for name in other_methods}


def test_provider_offers_what_it_does_on_the_other_machine() -> None:
    def offered(found: tuple[Algorithm, ...]) -> set[tuple[str, str, frozenset[int]]]:
        return {(each.operation, each.names[0], frozenset(each.functions)) for each in found}

    arm, other = (algorithms(image) for image in pair("libcrypto", "3.5"))
    assert offered(arm) == offered(other)
    assert {each.operation for each in arm} == {"KEYMGMT", "KEYEXCH", "SIGNATURE", "ASYM_CIPHER", "KEM"}
