# SPDX-License-Identifier: Apache-2.0
"""The choice between exit sites and a return probe, and the check that every plan passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.flow import Graph, Unplannable, build
from ssllatency.code.machine import BASELINE, Cost
from ssllatency.code.return_values import NOT_LEFT, ExitValues
from ssllatency.probes.costs import cost_ns
from ssllatency.probes.plan import Role
from ssllatency.probes.sites.entry import Site, entry_site
from ssllatency.probes.sites.exits import Chooser
from ssllatency.probes.sites.verify import problem

Assembler = Callable[[str], Assembled]

GUARDED = (
    "{head}sub $0x10, %rsp\nat_c: call other@PLT\nmov 8(%rsp), %rdx\nsub %fs:0x28, %rdx\nat_x: jne 9f\nadd $0x10, %rsp\n{foot}"
    "at_r: ret\n9: call __stack_chk_fail@PLT\n"
)


@pytest.mark.parametrize(
    ("head", "foot", "roles", "cost"),
    [
        # push: 800 ns with a return probe, 1,000 with an exit.
        ("at_a: push %rbx\n", "pop %rbx\n", {Role.RETURN}, 800),
        # sub: a return probe would be single-stepped, 5,300; the first call and the branch cost 1,000.
        ("at_a: ", "", {Role.ENTRY, Role.EXIT}, 1000),
        # no branch before the return: 5,300 against 5,500.
        ("at_a: sub $8, %rsp\nat_b: call other@PLT\nadd $8, %rsp\nat_q: ret\n", "", {Role.RETURN}, 5300),
    ],
)
def test_the_cheaper_of_exits_and_return_probe_on_request(
    assembled: Assembler, head: str, foot: str, roles: set[Role], cost: int
) -> None:
    code = assembled(function("f", GUARDED.format(head=head, foot=foot)))
    plan = code.plan(async_job=False, prefer=True)
    assert {probe.role for probe in plan.probes} == roles
    assert cost_ns(plan) == cost


@pytest.mark.parametrize(
    "properties",
    [{"async_job": False}, {"async_job": True, "prefer": True}, {"async_job": False, "return_probes": False, "prefer": True}],
)
def test_no_return_probe_where_it_may_kill_or_is_not_needed(assembled: Assembler, properties: dict[str, bool]) -> None:
    code = assembled(function("f", GUARDED.format(head="at_a: push %rbx\n", foot="pop %rbx\n")))
    plan = code.plan("f", **properties)  # type: ignore[arg-type]
    assert (code.entry(plan), code.exits(plan)) == ("at_a", ["at_x"])


def test_a_call_costs_its_dearest_way_out(assembled: Assembler) -> None:
    cheap = "call other@PLT\nat_x: jmp 2f\nud2\n2: pop %rbx\nret\n"
    dear = "1: call third@PLT\npop %rbx\nat_r: ret\n"
    code = assembled(function("f", f"at_a: push %rbx\ntest %edi, %edi\nje 1f\n{cheap}{dear}"))
    plan = code.plan()
    assert code.exits(plan) == ["at_r", "at_x"]
    assert cost_ns(plan) == 5500


def test_many_branches_on_the_way_out_are_planned_in_no_time(assembled: Assembler) -> None:
    """Each passes those before it; counted one by one, thirty of them would take days."""
    branches = "".join("call other@PLT\ntest %eax, %eax\njg 8f\n" for _ in range(30))
    body = f"sub $8, %rsp\n{branches}xor %eax, %eax\nadd $8, %rsp\nret\n8: mov $1, %eax\nadd $8, %rsp\nret\n"
    plan = assembled(function("f", body)).plan()
    assert max(probe.passed for probe in plan.probes) in (0, 29, 30)


def test_a_symbol_within_a_function_is_not_planned(assembled: Assembler) -> None:
    """As a debug file may say that isn't the library's: 0x50 is a push in the middle of an instruction."""
    code = assembled(function("f", "push %rbx\nmov $0x50505090, %eax\npop %rbx\nret\n"))
    start = code.symbols["f"]
    with pytest.raises(Unplannable, match="know no function that begins at"):
        build(code.planner().code, start + 3, 4, code.planner().tails.targets)


def test_a_frame_that_a_cookie_has_no_room_for_is_left_by_the_return(assembled: Assembler) -> None:
    head, foot = "at_a: push %rbx\nsub $0x10020, %rsp\n", "add $0x10020, %rsp\npop %rbx\n"
    plan = (code := assembled(function("f", GUARDED.format(head=head, foot=foot)))).plan()
    assert (code.entry(plan), code.exits(plan)) == ("at_a", ["at_r"])


# The check.


@pytest.fixture
def planned(assembled: Assembler) -> tuple[Graph, Site, list[Site]]:
    body = (
        "at_a: push %rbx\n1: call other@PLT\ndec %rbx\nat_l: jne 1b\nmov %eax, %ebx\ntest %ecx, %ecx\nat_y: je 2f\n"
        "mov %ebx, %eax\npop %rbx\nat_q: ret\n2: mov %ebx, %eax\npop %rbx\nat_r: ret\n"
    )
    graph = assembled(function("f", body)).graph()
    entry = entry_site(graph, frozenset(), BASELINE)
    return graph, entry, Chooser(graph, BASELINE, "rax").sites(entry.address)


def returns(graph: Graph) -> list[Site]:
    return [Site(graph.nodes[address], Cost.SINGLE_STEPPED, 0, ExitValues("rax", "rax")) for address in graph.ways_out()]


def site_at(graph: Graph, text: str) -> Site:
    each = next(each for each in graph.nodes.values() if each.text.startswith(text))
    delta = graph.delta(each.address)
    assert delta is not None
    return Site(each, Cost.EMULATED, delta, ExitValues("rbx", "rbx"))


def test_the_check_passes_what_was_planned(planned: tuple[Graph, Site, list[Site]]) -> None:
    graph, entry, exits = planned
    assert problem(graph, entry, exits, "rax") == ""
    assert problem(graph, entry, returns(graph), "rax") == ""
    assert problem(graph, entry, (), "rax") == ""  # a return probe needs no exits


def test_the_check_finds_what_is_wrong(planned: tuple[Graph, Site, list[Site]]) -> None:
    graph, entry, exits = planned
    (leaving,) = exits
    first, second = returns(graph)
    loop = site_at(graph, "jne")
    wrong = {
        "without its value": [first],  # one way out isn't covered
        "after another exit": [leaving, first, second],  # twice
        "two exit sites": [leaving, leaving],
        "is crossed": [loop, leaving],  # in the loop
        "from an exit site": [replace(leaving, ending=ExitValues("r12", "r12"))],  # the value is elsewhere
        "doesn't fit": [replace(leaving, stack_delta=16)],
    }
    for text, sites in wrong.items():
        assert text in problem(graph, entry, sites, "rax"), text
    for inside in (loop, site_at(graph, "call")):
        assert "crossed twice" in problem(graph, replace(inside, ending=NOT_LEFT), exits, "rax")


def test_the_check_finds_a_call_past_the_exit(assembled: Assembler) -> None:
    graph = assembled(
        function("f", "at_a: push %rbx\ntest %edi, %edi\nat_x: je 1f\n1: call other@PLT\npop %rbx\nret\n")
    ).graph()
    entry = entry_site(graph, frozenset(), BASELINE)
    assert "a call follows the exit" in problem(graph, entry, [site_at(graph, "je")], "rax")


def test_the_check_finds_an_entry_that_is_passed_by(assembled: Assembler) -> None:
    code = assembled(
        function("f", "at_a: test %edi, %edi\nje 1f\npush %rbx\ncall other@PLT\npop %rbx\nat_q: ret\n1: at_r: ret\n")
    )
    graph = code.graph()
    late = replace(site_at(graph, "push"), ending=NOT_LEFT)
    assert "reached past no entry" in problem(graph, late, (), "rax")
    assert "before the entry" in problem(graph, late, returns(graph), "rax")


def test_the_check_knows_what_a_branch_tells(assembled: Assembler) -> None:
    body = (
        "at_a: push %rbx\ncall other@PLT\ntest %eax, %eax\nat_x: je 1f\nmov $1, %eax\npop %rbx\nret\n"
        "1: call third@PLT\nmov $0, %eax\npop %rbx\nat_r: ret\n"
    )
    graph = assembled(function("f", body)).graph()
    entry, branch = entry_site(graph, frozenset(), BASELINE), site_at(graph, "je")
    last = max(returns(graph), key=lambda site: site.address)

    def said(ending: ExitValues) -> str:
        return problem(graph, entry, [replace(branch, ending=ending), last], "rax")

    assert said(ExitValues(None, 1)) == ""
    assert "without its value" in said(ExitValues(None, 0))
    assert "without its value" in said(ExitValues(None, "rax"))
    assert "without its value" in said(ExitValues(1, None))  # the other way out isn't covered
    assert "a call follows" in said(ExitValues(0, 1))
    assert "without its value" in said(NOT_LEFT)
