# SPDX-License-Identifier: Apache-2.0
"""The plan of a Go program: its probes, what is kept of it, and what the kernel side is told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.fixtures.go_program import GoProgram
from tests.fixtures.go_samples import HANDSHAKE, LAYOUTS, MACHINES, leaf, program

from ssllatency import abi
from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfSource
from ssllatency.engines.attach.images import can_trace, is_go
from ssllatency.engines.attach.probing import FLOOR, STANDARD
from ssllatency.engines.attach.sites import library_record, sites_of
from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpftrace.script import scripted
from ssllatency.fields import FieldError
from ssllatency.probes import codec
from ssllatency.probes.contents import file_facts
from ssllatency.probes.plan import NOT_IN_LIBRARY, FilePlan, Leaving, MissingOperation, Role, SslOffsets
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.go.operations import READ, SERVER
from ssllatency.stacks.registry import stack_named, stack_of

FILE_SIZE = 1 << 20


def image_of(made: GoProgram) -> Image:
    return Image("made", ElfSource.of(made.data(), "/srv/app"), ())


def planned(layout: int = 26, machine: str = "x86-64") -> FilePlan:
    return plan_image(image_of(program(layout, machine)))


def traced(plan: FilePlan) -> TracedImage:
    return TracedImage(plan, plan.path, (1,))


def values_of(plan: FilePlan) -> Any:
    return json.loads(json.dumps(codec.to_values(plan)))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_its_functions_have_an_entry_and_their_returns(layout: int, machine: str) -> None:
    plan = planned(layout, machine)
    assert (plan.kind, plan.stack, plan.version) == ("crypto/tls", "go", f"Go crypto/tls {LAYOUTS[layout]}")
    assert plan.offsets.client == 16
    found = {operation.operation: operation.probes for operation in plan.operations}
    assert found.keys() == {SERVER, READ, "runtime.gopanic"}
    register = {"x86-64": ("rax", "rbx"), "aarch64": ("x0", "x1")}[machine]
    for name, result in zip((SERVER, READ), register, strict=True):
        entry, *exits = found[name]
        assert [site.role for site in (entry, *exits)] == [Role.ENTRY, Role.EXIT, Role.EXIT]
        assert {site.return_register for site in exits} == {result}
        assert {site.stack_delta for site in (entry, *exits)} == {0}
        branch = "b.ls" if machine == "aarch64" else "jbe" if layout < 20 else ""
        expected = (branch, Leaving.OTHER if branch else Leaving.BOTH)
        # The sample of Go 1.20's layout is written as Go 1.21 compiles.
        assert (entry.condition, entry.leaving) == expected
    assert [site.role for site in found["runtime.gopanic"]] == [Role.ENTRY]
    assert MissingOperation("tls.Conn.Write", NOT_IN_LIBRARY) in plan.missing


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_kept_of_it_is_read_again(machine: str) -> None:
    plan = planned(18, machine)
    assert codec.from_values(values_of(plan), FILE_SIZE) == plan


def test_a_kept_plan_with_a_return_probe_is_refused() -> None:
    """The runtime would end the program."""
    values = values_of(planned())
    [read] = [operation for operation in values["operations"] if operation["operation"] == READ]
    read["probes"] = [read["probes"][0] | {"role": "return", "return_register": "rax"}]
    with pytest.raises(FieldError):
        codec.from_values(values, FILE_SIZE)


@pytest.mark.parametrize(("machine", "condition"), [("x86-64", 6), ("aarch64", 9)])
def test_a_call_begins_where_the_branch_is_not_taken(machine: str, condition: int) -> None:
    plan = planned(18, machine)
    sites = sites_of(traced(plan), [SERVER, READ], 3)
    assert len(sites.entries) == 2
    for number, (_, cookie) in enumerate(sorted(sites.entries, key=lambda site: site[1] & 0xFF)):
        assert cookie & 0xFF == number
        assert cookie >> abi.Cookie.CONDITION & 15 == condition
        assert cookie >> abi.Cookie.TAKEN & 15 == abi.Exit.GOES_ON
        assert cookie >> abi.Cookie.OTHER & 15 == abi.Exit.IN_REGISTER
    assert {cookie >> abi.Cookie.RETURNS & 3 for _, cookie in sites.exits} == {abi.Returns.GO_ERROR}
    assert (len(sites.exits), len(sites.errors), sites.returns, sites.frees) == (4, 1, [], [])


def test_the_kernel_side_reads_its_connections_by_its_own_layout() -> None:
    record = library_record(planned().offsets, stack_named("go"))
    assert (record.stack, record.server, record.rwstate, record.typed, record.remember) == (abi.Stack.GO, 16, -1, 0, 0)
    assert record.deadline == 0, "the sample has no such error"
    assert library_record(SslOffsets(deadline=-160), stack_named("go")).deadline == -160
    record = library_record(SslOffsets(sent=552, go_types=(7, 0, 0xFFFFFFFF)), stack_named("go"))
    assert (record.sent, list(record.types)) == (552, [7, 0, 0xFFFFFFFF, *[0] * 7])
    record = library_record(SslOffsets(go_fields=(48, 191)), stack_named("go"))
    assert list(record.fields)[:3] == [48, 191, 0]


@pytest.mark.parametrize("distance", [-160, 16224, None])
def test_the_distance_of_two_errors_is_kept(distance: int | None) -> None:
    plan = replace(planned(), offsets=SslOffsets(client=16, deadline=distance))
    assert codec.from_values(values_of(plan), FILE_SIZE) == plan


@pytest.mark.parametrize("hashes", [(), (0xFFFFFFFF, 0), (1,) * abi.GoType.GO_TYPES])
def test_the_hashes_of_types_are_kept(hashes: tuple[int, ...]) -> None:
    plan = replace(planned(), offsets=SslOffsets(client=16, sent=552, go_types=hashes))
    assert codec.from_values(values_of(plan), FILE_SIZE) == plan


@pytest.mark.parametrize("fields", [(), (48, 0), (1,) * abi.GoField.GO_FIELDS])
def test_fields_of_the_runtimes_records_are_kept(fields: tuple[int, ...]) -> None:
    plan = replace(planned(), offsets=SslOffsets(client=16, go_fields=fields))
    assert codec.from_values(values_of(plan), FILE_SIZE) == plan


@pytest.mark.parametrize("fields", [[-1], [1 << 32], ["1"], [1] * (abi.GoField.GO_FIELDS + 1), 1])
def test_fields_that_are_none_are_refused(fields: object) -> None:
    values = values_of(planned())
    values["offsets"]["go_fields"] = fields
    with pytest.raises(FieldError):
        codec.from_values(values, FILE_SIZE)


@pytest.mark.parametrize("hashes", [[-1], [1 << 32], ["1"], [1] * (abi.GoType.GO_TYPES + 1), 1])
def test_hashes_that_are_none_are_refused(hashes: object) -> None:
    values = values_of(planned())
    values["offsets"]["go_types"] = hashes
    with pytest.raises(FieldError):
        codec.from_values(values, FILE_SIZE)


@pytest.mark.parametrize("distance", [1 << 31, -(1 << 31), True, "1", 1.0])
def test_a_distance_beyond_any_file_is_refused(distance: object) -> None:
    values = values_of(planned())
    values["offsets"]["deadline"] = distance
    with pytest.raises(FieldError):
        codec.from_values(values, FILE_SIZE)


def test_its_functions_have_programs_of_their_own() -> None:
    go, other = traced(planned()), traced(FilePlan("/lib/libssl.so.3", "", "", "libssl", (), ()))
    assert (is_go(go), is_go(other)) == (True, False)
    programs = STANDARD.of(go)
    assert (programs.entry, programs.exit, programs.error) == ("at_go_entry", "at_go_exit", "at_go_leaving")
    assert STANDARD.of(other) is STANDARD
    assert FLOOR.of(go).entry == "at_nothing"
    assert "at_go_entry" in STANDARD.at_sites([other, go], later=False)
    assert "at_go_entry" in STANDARD.at_sites([other], later=True)
    assert "at_go_entry" not in STANDARD.at_sites([other], later=False)


class WithoutGo:
    """An object without the table of goroutines."""

    def has_map(self, name: str) -> bool:
        return name != "goroutines"


def test_what_can_not_trace_it_leaves_it_alone_and_says_so() -> None:
    go, other = traced(planned()), traced(FilePlan("/lib/libssl.so.3", "", "", "libssl", (), ()))
    assert not can_trace(WithoutGo(), go)  # type: ignore[arg-type]
    assert can_trace(WithoutGo(), other)  # type: ignore[arg-type]
    left, kept = (scripted(image) for image in (go, other))
    assert kept is other
    assert left.plan.operations == ()
    assert MissingOperation(READ, f"the bpftrace engine doesn't know {stack_named('go').title}") in left.plan.missing


def test_what_is_in_a_program() -> None:
    facts = file_facts(image_of(program()))
    assert (facts.libraries, facts.name, facts.release) == (("crypto/tls",), "Go crypto/tls", "go1.26.8")
    assert (facts.obstacle, facts.others, facts.by_debug_file) == ("", (), False)
    assert stack_of(image_of(program())).name == "go"


def test_why_a_damaged_one_is_not_traced() -> None:
    made = replace(program(), changes={("pclntab", 0): b"\xfa"})
    facts = file_facts(image_of(made))
    assert (facts.libraries, facts.name) == ((), "Go crypto/tls")
    assert "is older than 1.18" in facts.obstacle
    assert not facts.obstacle.endswith(".")
    assert plan_image(image_of(made)).operations == ()


def test_a_program_with_a_name_of_crypto_tls_alone_has_no_tls() -> None:
    made = replace(program(), functions=[leaf("main.main", "x86-64")], lines=(f"path\t{HANDSHAKE}",))
    assert file_facts(image_of(made)).libraries == ()
    assert stack_of(image_of(made)).name != "go"
