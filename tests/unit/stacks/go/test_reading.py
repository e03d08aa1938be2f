# SPDX-License-Identifier: Apache-2.0
"""What is read of Go executables: build information, functions, types, itabs and inlining, in each layout that there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fixtures.go_program import STRUCT, Code, GoProgram, Type, merged
from tests.fixtures.go_samples import FIELDS, HANDSHAKE, LAYOUTS, MACHINES, RET, checked, leaf, program

from ssllatency.elf.image import ElfError, Image
from ssllatency.elf.source import ElfSource
from ssllatency.stacks.go import inlining, module_data
from ssllatency.stacks.go.build_info import BuildInfo
from ssllatency.stacks.go.data import Data, varint
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.run_time_types import Kind

LABEL = "/srv/app"


def reader(made: GoProgram) -> Program:
    """What reads the program."""
    return Program(Image("made", ElfSource.of(made.data(), LABEL), ()))


@pytest.fixture(params=[(layout, machine, pie) for layout in LAYOUTS for machine in MACHINES for pie in (False, True)], ids=str)
def made(request: pytest.FixtureRequest) -> GoProgram:
    """A program in each layout."""
    layout, machine, pie = request.param
    return program(layout, machine, pie=pie)


def test_everything_of_each_layout(made: GoProgram) -> None:
    read = reader(made)
    assert read.build_info.version == LAYOUTS[made.layout]
    assert read.build_info.minor == int(LAYOUTS[made.layout].split(".")[1])
    assert read.build_info.setting("CGO_ENABLED") == "0"
    functions = list(read.functions)
    assert [function.name for function in functions] == [code.name for code in made.functions]
    assert len(read.functions) == len(functions)
    for function in functions:
        assert read.functions.named(function.name) == [function]
        assert read.functions.at(function.address) == read.functions.at(function.address + function.size - 1) == function
    assert read.functions.named("crypto/tls.(*Conn).server") == read.functions.named("Handshake") == []
    conn = read.types.find("crypto/tls", "Conn")
    assert conn is not None
    assert {name: field.offset for name, field in read.types.fields(conn).items()} == FIELDS
    assert read.types.size(conn) == 232
    pointer = read.types.pointer_to(conn)
    assert pointer is not None
    assert read.types.name(pointer) == "*tls.Conn"
    assert set(read.types.errors) == {"*net.OpError", "tls.alert"}
    assert read.inlining.hosts("crypto/tls.(*Conn).HandshakeContext") == ["crypto/tls.(*Conn).Read"]
    assert read.inlining.hosts(HANDSHAKE) == []


def test_stack_depths_are_those_of_each_instruction(made: GoProgram) -> None:
    functions = reader(made).functions
    for code, function in zip(made.functions, functions, strict=True):
        depths = functions.pc_values(functions.record(function).stack_depths)
        assert depths == merged(code.depths or [(function.size, 0)])
    assert functions.pc_values(0) == []


def test_a_type_is_known_by_its_package() -> None:
    fork = Type("Conn", "github.com/refraction-networking/utls/tls", STRUCT, 8, fields=(("other", "uint8", 0),))
    made = program()
    read = reader(replace(made, types=(fork, *made.types)))
    conn = read.types.find("crypto/tls", "Conn")
    assert conn is not None
    assert "vers" in read.types.fields(conn)
    other = read.types.find(fork.package, "Conn")
    assert other is not None
    assert list(read.types.fields(other)) == ["other"]
    assert read.types.find("net", "Conn") is None, "it is an interface"
    assert read.types.find("net", "Conn", Kind.INTERFACE) is not None
    assert read.types.find("crypto/tls", "Dialer") is None


def test_a_struct_of_two_types_of_the_same_name_is_neither() -> None:
    made = program()
    twin = next(each for each in made.types if each.package == "crypto/tls" and each.kind == STRUCT)
    assert reader(replace(made, types=(replace(twin), *made.types))).types.find("crypto/tls", "Conn") is None


def test_a_package_of_a_fips_build_is_known_by_its_name_without_the_version() -> None:
    functions = reader(program()).functions
    name = "crypto/internal/fips140/{}mlkem.(*EncapsulationKey768).encapsulate"
    (function,) = functions.named(name.format(""))
    assert function.name == name.format("v1.0.0-c2097c7c/")
    assert functions.named(name.format("v2.0.0/")) == []


def test_names_that_end_alike_are_told_apart() -> None:
    names = [HANDSHAKE, f"github.com/fork/{HANDSHAKE}", f"{HANDSHAKE}-fm", "a"]
    functions = reader(replace(program(), functions=[leaf(name, "x86-64") for name in names])).functions
    assert [len(functions.named(name)) for name in names] == [1, 1, 1, 1]
    twice = reader(replace(program(), functions=[leaf(HANDSHAKE, "x86-64"), leaf(HANDSHAKE, "x86-64")])).functions
    assert len(twice.named(HANDSHAKE)) == 2


def test_inlining_into_functions_that_share_a_tree_and_into_none() -> None:
    inner = "crypto/tls.(*Conn).ConnectionState"
    hosts = [
        checked(name, "x86-64", inlined=inlined) for name, inlined in (("a", (inner, "x")), ("b", ("x", inner)), ("c", ("x",)))
    ]
    read = reader(replace(program(), functions=hosts))
    assert read.inlining.hosts(inner) == ["a", "b"]
    assert read.inlining.hosts("x") == ["a", "b", "c"]
    assert read.inlining.hosts("never") == []


def test_trees_of_inlined_calls_are_read_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "_MOST_VALUES", 0)
    with pytest.raises(ElfError, match="trees of inlined calls"):
        reader(program()).inlining.hosts("crypto/tls.(*Conn).HandshakeContext")


def test_build_information_without_texts_or_none() -> None:
    made = program()
    old = reader(replace(made, changes={("build info", 15): b"\0"}))
    assert (old.build_info.version, old.build_info.minor, old.build_info.lines) == ("", None, ())
    assert reader(replace(made, changes={("build info", 0): b"x"})).build_info.version == ""
    assert reader(replace(made, version="devel go1.28-a1b2c3")).build_info.minor == 28
    assert reader(replace(made, lines=("mod\texample\t(devel)\t",))).build_info.setting("GOFIPS140") == ""


def refusal(made: GoProgram, part: str = "functions") -> str:
    """The sentence that says why this part of the program can't be read."""
    with pytest.raises(ElfError) as error:
        getattr(reader(made), part)
    sentence = str(error.value)
    assert sentence.startswith(f"{LABEL} ")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def word(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little")


MAGIC_OF_1_16 = word(0xFFFFFFFA, 4)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({("pclntab", 0): MAGIC_OF_1_16}, "older than 1.18"),
        ({("pclntab", 0): word(0xFFFFFFF2, 4)}, "garbled, or of a newer Go"),
        ({("pclntab", 0): word(0x12345678, 4)}, "garbled, or of a newer Go"),
        ({("pclntab", 6): b"\x08"}, "garbled, or of a newer Go"),
        ({("pclntab", 8): word(0)}, "garbled, or of a newer Go"),
        ({("pclntab", 8): word(1 << 40)}, "garbled, or of a newer Go"),
        ({("moduledata", 0): word(0)}, "garbled, or of a newer Go"),
        ({("pclntab", 24): word(0x400100)}, "disagree about where its code is"),
        ({("moduledata", 176): word(0)}, "disagree about where its code is"),
        ({("moduledata", 136): word(3)}, "disagrees with its own number of functions"),
        ({("moduledata", 112): word(1 << 62)}, "oversized"),
        ({("moduledata", 296): word(0)}, "laid out otherwise"),
        ({("moduledata", 304): word(0x400100)}, "laid out otherwise"),
        ({("moduledata", 336): word(0x400100)}, "laid out otherwise"),
        ({("moduledata", 344): word(2)}, "several sections"),
        ({("moduledata", 16): word(1 << 27)}, "has no"),
        ({("functab", 0): word(0xFFFFFF, 4)}, "damaged"),
        ({("functab", 4): word(0xFFFFFFF0, 4)}, "damaged"),
        ({("functab", 4): word(3, 4)}, "damaged"),
        ({("functab", 8): word(0, 4)}, "damaged"),
        ({("moduledata", 112): word(3)}, "damaged"),
    ],
)
def test_tables_that_are_none_are_refused(changes: dict[tuple[str, int], bytes], reason: str) -> None:
    assert reason in refusal(replace(program(), changes=changes))


def test_no_more_places_are_looked_at_than_programs_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file full of what might be a header, eight bytes each, took a quarter of a second for each of its megabytes."""
    monkeypatch.setattr(module_data, "_MOST_PLACES", 1)
    made = program()
    assert len(reader(made).functions) == len(made.functions)
    decoys = replace(made, functions=[Code("decoys", [bytes.fromhex("ffffff0000010800"), RET["x86-64"]]), *made.functions])
    assert "garbled, or of a newer Go" in refusal(decoys)


def test_a_table_that_ends_within_its_index_is_refused() -> None:
    """Also where each record that is left has the start of its function: those in the index itself."""
    made = program()
    count = len(made.functions)
    index = [
        word(start, 4) + word(8 * min(number, count - 6), 4) for number, start in enumerate([*range(count - 6), *[count] * 6])
    ]
    changes = {("functab", 0): b"".join(index), ("moduledata", 112): word(8 * count)}
    assert "damaged" in refusal(replace(made, changes=changes))


def test_build_information_that_lies_is_refused() -> None:
    assert "has no length" in refusal(replace(program(), changes={("build info", 32): b"\xff" * 8}), "build_info")
    long = replace(program(), changes={("build info", 32): b"\xff\xff\xff\x7f"})
    assert "has no" in refusal(long, "build_info")


def test_names_and_records_that_lead_out_of_their_tables_are_refused() -> None:
    made = program()
    record = 8 * len(made.functions) + 4
    for change in ({("functab", record + 4): word(0x7FFFFFFF, 4)}, {("functab", record + 28): word(0x7FFFFFFF, 4)}):
        functions = reader(replace(made, changes=change)).functions
        with pytest.raises(ElfError, match="damaged"):
            functions.record(next(iter(functions)))
    functions = reader(made).functions
    with pytest.raises(ElfError, match="have no end"):
        functions.pc_values(1 << 30)


def test_values_for_instructions_without_end_are_refused() -> None:
    endless = reader(replace(program(), changes={("pctab", 1): b"\x82" * 6})).functions
    with pytest.raises(ElfError, match="have no end"):
        endless.pc_values(1)


def test_fields_that_do_not_fill_their_struct_are_refused() -> None:
    made = program()
    conn = reader(made).types.find("crypto/tls", "Conn")
    assert conn is not None
    for offset, value in ((0, 8), (64, 1 << 40), (64, 0), (56, 0)):
        read = reader(replace(made, changes={("type tls.Conn", offset): word(value)}))
        with pytest.raises(ElfError):
            read.types.fields(conn)
    uint8 = reader(made).types.find("", "uint8", Kind.UINT8)
    assert uint8 is not None
    with pytest.raises(ElfError, match="no struct"):
        reader(made).types.fields(uint8)


def test_no_file_of_go_at_all() -> None:
    other = reader(replace(program(), changes={("pclntab", 0): bytes(8), ("build info", 0): bytes(16)}))
    assert other.build_info == BuildInfo()
    with pytest.raises(ElfError, match="it isn't of Go"):
        _ = other.module


def test_lengths_of_seven_bits_a_byte() -> None:
    assert varint(b"\x05", 0) == (5, 1)
    assert varint(b"\0\x85\x01", 1) == (133, 3)
    assert varint(b"\xff" * 9, 0) is None
    assert varint(b"\x80", 0) is None
    assert varint(b"", 0) is None
    data = Data(Image("made", ElfSource.of(program().data(), LABEL), ()))
    with pytest.raises(ElfError):
        data.text(0x400000, 1 << 20)
    with pytest.raises(ElfError):
        data.read(0x10, 1)
