# SPDX-License-Identifier: Apache-2.0
"""Ends of calls at the function that they defer, and where those are not sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.fixtures.go_program import Code, Label, Part, To
from tests.fixtures.go_samples import CALL, grow, leaf, program, size_of

from ssllatency import abi
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfSource
from ssllatency.engines.attach.sites import sites_of
from ssllatency.engines.base import TracedImage
from ssllatency.fields import FieldError
from ssllatency.probes import codec
from ssllatency.probes.plan import FilePlan, Role
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.base import fits_cookie
from ssllatency.stacks.go.operations import READ, SERVER
from ssllatency.stacks.go.plan import FunctionPlan, FunctionPlanner
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.sites import verify
from ssllatency.stacks.go.traced_functions import FUNCTIONS
from ssllatency.stacks.operation import Tier

READS = "crypto/tls.(*Conn).Read"
(TRACED,) = (function for function in FUNCTIONS if function.name == READS)
DEPTH = 96  # the frame of 0x58 bytes and rbp
FRAME, OUT = bytes.fromhex("554883ec58"), bytes.fromhex("4883c4585dc3")
TEST, JE = bytes.fromhex("4885c0"), b"\x0f\x84"
# lea deferred(%rip),%rdi; mov %rdi,0x40(%rsp); lea 0x40(%rsp),%rdi; mov %rdi,0x50(%rsp)
CODE, KEEP = To(bytes.fromhex("488d3d"), "deferred", 4), bytes.fromhex("48897c2440 488d7c2440")
PUT = bytes.fromhex("48897c2450")
STORE = bytes.fromhex("48894c2420 4889442430 48895c2438")  # rcx, rax and rbx to 0x20, 0x30 and 0x38
LOAD_CLOSURE, CALL_CLOSURE = bytes.fromhex("488b542450 488b02"), bytes.fromhex("ffd0")
LOAD = bytes.fromhex("488b442420 488b5c2430 488b4c2438")  # rax, rbx and rcx from there
MAKE: list[Part] = [CODE, KEEP, PUT]
END: list[Part] = [STORE, LOAD_CLOSURE, CALL_CLOSURE, LOAD, OUT]
NO_CHECK: list[Part] = [bytes.fromhex("31c0"), b"\xc3"]


def deferring(make: Sequence[Part] = MAKE, end: Sequence[Part] = END, more: Sequence[Part] = END) -> Code:
    """A read that returns early, or defers a function and returns in two ways."""
    head: list[Part] = [Label("start"), bytes.fromhex("493b6610"), To(b"\x0f\x86", "grow", 4), FRAME]
    body: list[Part] = [TEST, To(JE, "early", 4), *make, TEST, To(JE, "other", 4), *end, Label("other"), *more]
    tail: list[Part] = [Label("grow"), To(CALL, "runtime.morestack_noctxt", 4), To(b"\xe9", "start", 4)]
    parts = [*head, *body, Label("early"), OUT, *tail]
    depths, at = [(11, 0), (15, 8)], 0
    for part in parts:
        at += size_of(part)
        if part == OUT:
            depths += [(at - 2, DEPTH), (at - 1, 8), (at, 0)]
    return Code(READS, parts, [*depths, (at, 0)])


def deferred(parts: Sequence[Part] | None = None) -> Code:
    """The function that is deferred: it checks its stack, or is `parts`."""
    if parts is not None:
        return Code("deferred", parts, [(64, 0)])
    own: list[Part] = [
        Label("start"),
        bytes.fromhex("493b6610"),
        To(b"\x76", "grow"),
        b"\x55",
        b"\x5d",
        b"\xc3",
        *grow("x86-64"),
    ]
    return Code("deferred", own, [(7, 0), (8, 8), (sum(map(size_of, own)), 0)])


def image(code: Code, callee: Code | None = None, *, machine: str = "x86-64", pie: bool = False) -> Image:
    made = program(machine=machine, pie=pie)
    others = [function for function in made.functions if function.name != READS]
    names = ("runtime.panicIndex", "runtime.deferreturn", "other")
    functions = [*others, *(leaf(name, machine) for name in names), callee or deferred(), code]
    return Image("made", ElfSource.of(replace(made, functions=functions).data(), "/srv/app"), ())


def planned(code: Code, callee: Code | None = None, *, pie: bool = False) -> FunctionPlan:
    return FunctionPlanner(Program(image(code, callee, pie=pie))).plan(TRACED)


@pytest.mark.parametrize("pie", [False, True])
def test_calls_end_at_the_function_that_they_defer(pie: bool) -> None:
    found = planned(deferring(), pie=pie)
    assert found.obstacle == ""
    end = found.deferred
    assert end is not None
    assert (end.depth, end.results) == (DEPTH + 8, (0x28, 0x38))
    assert (len(end.calls), len(end.returns), len(found.exits)) == (2, 2, 1)
    assert end.code.entry.address == end.code.address + 6
    assert not end.code.entry.not_taken


def test_a_nop_before_the_call_and_other_deferred_calls_change_nothing() -> None:
    """The slot of another closure is 0x48, which leads nowhere."""
    other = [bytes.fromhex("488b542448 488b02"), CALL_CLOSURE]
    first = [STORE, LOAD_CLOSURE, b"\x90", CALL_CLOSURE, *other, LOAD, OUT]
    last = [STORE, *other, LOAD_CLOSURE, CALL_CLOSURE, LOAD, OUT]
    found = planned(deferring(end=first, more=last))
    assert found.deferred is not None
    assert len(found.deferred.returns) == 2


@pytest.mark.parametrize(
    ("make", "end"),
    [
        ([CODE, KEEP], END),  # nothing is put there
        ([*MAKE, bytes.fromhex("4889442450")], END),  # something else is put there as well: rax
        ([CODE, KEEP, PUT, bytes.fromhex("488d7c2438"), PUT], END),  # another closure
        ([To(bytes.fromhex("488d3d"), "early", 4), KEEP, PUT], END),  # its code is no function's
        ([*MAKE, bytes.fromhex("488d442430")], END),  # the address of the error is taken
        (MAKE, [STORE, bytes.fromhex("488b542450 488b12 ffd2"), LOAD, OUT]),  # called through another register
        (MAKE, [STORE, LOAD_CLOSURE, CALL_CLOSURE, bytes.fromhex("31c0"), LOAD[5:], OUT]),  # a number that is none of a slot's
        (MAKE, [STORE, LOAD_CLOSURE, CALL_CLOSURE, LOAD[:10], bytes.fromhex("488b4c2440"), OUT]),  # an error in two places
        (MAKE, [LOAD_CLOSURE, CALL_CLOSURE, STORE, LOAD, OUT]),  # results that are set behind the call
        (
            MAKE,
            [STORE, LOAD_CLOSURE, CALL_CLOSURE, bytes.fromhex("488902"), LOAD, OUT],
        ),  # something is written, who knows where
        (MAKE, [STORE, *[LOAD_CLOSURE, CALL_CLOSURE] * 2, LOAD, OUT]),  # it is called twice
    ],
)
def test_what_is_not_sure_ends_at_its_returns(make: Sequence[Part], end: Sequence[Part]) -> None:
    found = planned(deferring(make, end, end))
    assert found.obstacle == ""
    assert found.deferred is None
    assert len(found.exits) == 3


def test_results_in_two_places_end_at_their_returns() -> None:
    elsewhere = [STORE, LOAD_CLOSURE, CALL_CLOSURE, bytes.fromhex("488b442428"), LOAD[5:], OUT]
    assert planned(deferring(more=elsewhere)).deferred is None


def test_a_way_out_without_the_deferred_function_keeps_its_return() -> None:
    found = planned(deferring(more=[STORE, LOAD, OUT]))
    assert found.deferred is not None
    assert (len(found.deferred.returns), len(found.exits)) == (1, 2)


def test_what_is_deferred_must_have_an_emulated_entry() -> None:
    """Else nothing is won; and one that can't be followed has none."""
    assert planned(deferring(), deferred(NO_CHECK)).deferred is None
    assert planned(deferring(), deferred([bytes.fromhex("ffe0")])).deferred is None


def test_a_loop_around_the_deferred_call_keeps_the_returns() -> None:
    """A call could come to it twice."""
    found = planned(deferring(end=[STORE, Label("again"), LOAD_CLOSURE, CALL_CLOSURE, TEST, To(b"\x74", "again"), LOAD, OUT]))
    assert found.deferred is None or len(found.deferred.returns) == 1


def checked(change: dict[str, object]) -> None:
    """The second opinion about the sample's plan, changed so."""
    read = Program(image(deferring()))
    planner = FunctionPlanner(read)
    found = planner.plan(TRACED)
    assert found.deferred is not None
    assert found.entry is not None
    (function,) = read.functions.named(READS)
    graph, depths = planner._bodies.graph(function), planner._bodies.depths(function)
    code = read.image.code(function.address, function.size)
    verify.check("x86-64", code, graph, depths, found.entry, found.exits, replace(found.deferred, **change))  # type: ignore[arg-type]


def test_the_second_opinion_finds_what_is_wrong() -> None:
    checked({})
    end = planned(deferring()).deferred
    assert end is not None
    for change, reason in (
        ({"returns": end.returns[:1]}, "nothing is known to lead to its return"),
        ({"calls": end.calls[:1]}, "a call can leave"),
        ({"calls": (*end.calls, end.calls[0] - 3)}, "before it began, or twice"),
        ({"depth": end.depth + 8}, "another at the calls that it defers"),
        ({"results": (0x30, 0x38)}, "aren't loaded from where they should be"),
        ({"results": (0x28, 0x40)}, "aren't loaded from where they should be"),
    ):
        with pytest.raises(Unplannable, match=reason):
            checked(change)


def plan_of(code: Code) -> FilePlan:
    return plan_image(image(code))


def test_the_kernel_side_is_told_where_the_results_are() -> None:
    plan = plan_of(deferring())
    (read,) = (operation for operation in plan.operations if operation.operation == READ)
    assert [probe.role for probe in read.probes] == [Role.ENTRY, Role.EXIT, Role.EXIT]
    last = read.probes[-1]
    assert (last.stack_delta, last.result_slots, last.return_register) == (DEPTH + 8, (0x28, 0x38), "")
    assert last.value_note() == "value in [sp + 56]"
    assert not read.address <= last.address < read.address + read.size
    image, numbered = TracedImage(plan, plan.path, (1,)), [READ, SERVER]
    other, cookie = (cookie for _, cookie in sites_of(image, numbered, 3, Tier.DATA).exits)
    assert cookie >> abi.Cookie.STACK & 0xFFFF == DEPTH + 8
    assert (cookie >> abi.DeferredCookie.COUNT_AT & 31, cookie >> abi.DeferredCookie.ERROR_BEHIND & 15) == (5, 2)
    assert other >> abi.Cookie.STACK & 0xFFFF == 0
    ((_, windowed),) = sites_of(image, numbered, 3, Tier.DATA, windowed=True).exits[1:]
    assert (windowed >> abi.DeferredCookie.COUNT_AT & 31, windowed >> abi.DeferredCookie.ERROR_BEHIND & 15) == (5, 2)


def test_the_slots_are_kept_and_others_refused() -> None:
    plan = plan_of(deferring())
    values = codec.to_values(plan)
    assert codec.from_values(values, 1 << 20) == plan
    (read,) = (operation for operation in values["operations"] if operation["operation"] == READ)
    for wrong in (
        [0x28],
        [0x28, 0x30, 0x38],
        [0x29, 0x38],
        [0x28, 0x28],
        [0x100, 0x108],
        [0x28, 0x28 + 128],
        [0x38, 0x28],
        [-8, 8],
    ):
        read["probes"] = [*read["probes"][:-1], read["probes"][-1] | {"result_slots": wrong}]
        with pytest.raises(FieldError):
            codec.from_values(values, 1 << 20)
    read["probes"] = [read["probes"][0] | {"result_slots": [0x28, 0x38]}, *read["probes"][1:]]
    with pytest.raises(FieldError):
        codec.from_values(values, 1 << 20)


@pytest.mark.parametrize(
    ("slots", "fits"), [((0, 8), True), ((248, 368), True), ((256, 264), False), ((0, 128), False), ((), False)]
)
def test_slots_that_a_cookie_has_room_for(slots: tuple[int, ...], fits: bool) -> None:
    assert fits_cookie(slots) is fits
