# SPDX-License-Identifier: Apache-2.0
"""How much the verifier has to look at: that is what a start takes most of its time for. And what is loaded ahead."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.engines import trial
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.objects import open_object
from ssllatency.errors import SsllatencyError
from tests.waiting import wait_for

# It does some hundred thousand a second where much is known of each register; the kernel refuses a program at a million.
MOST = 40_000
TOO_MANY = (1 << 32) - 1  # entries of a map
GO = ("at_go_entry", "at_go_exit")


@pytest.mark.parametrize("name", trial.OBJECTS)
def test_the_verifier_is_soon_done(name: str, method: str) -> None:
    with open_object(name) as opened:
        loaded = trial.load(opened, kernel.Method(method))
        looked_at = {program: verified_instructions(opened.program_fd(program)) for program in loaded}
    assert looked_at
    assert {program: number for program, number in looked_at.items() if number > MOST} == {}


def verified_instructions(descriptor: int) -> int:
    """How many the verifier went through, along all ways through the program."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("verified_insns:"))


def sized(opened: BpfObject) -> None:
    opened.resize_map("notices", 1 << 13)


def with_cgroup(opened: BpfObject) -> None:
    opened.section(".rodata.follow_config", abi.FollowConfig).cgroup = 1


def without_a_program(opened: BpfObject) -> None:
    opened.choose_program("at_exec", load=False)


def loaded_programs() -> set[int]:
    """The descriptors of this process that are programs."""
    found = set()
    for opened in Path("/proc/self/fd").iterdir():
        try:
            if str(opened.readlink()) == "anon_inode:bpf-prog":
                found.add(int(opened.name))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize("adjust", [sized, with_cgroup, without_a_program, lambda _: None])
def test_what_is_loaded_ahead_becomes_the_next_that_is_adjusted_so(adjust: Callable[[BpfObject], None]) -> None:
    programs = ahead_of(adjust, adjust)
    assert programs["taken"] <= programs["ahead"]


@pytest.mark.parametrize("adjust", [sized, with_cgroup, without_a_program])
def test_what_is_adjusted_in_another_way_is_loaded_itself(adjust: Callable[[BpfObject], None]) -> None:
    programs = ahead_of(lambda _: None, adjust)
    assert programs["taken"]
    assert len(programs["taken"]) == (3 if adjust is without_a_program else 4)


def ahead_of(first: Callable[[BpfObject], None], then: Callable[[BpfObject], None]) -> dict[str, set[int]]:
    """The programs that were loaded ahead as `first` adjusts the object, and those of one that `then` does, by descriptor."""
    before = loaded_programs()
    opened = open_object("follow")
    first(opened)
    opened.load_ahead()
    expected = 3 if first is without_a_program else 4
    wait_for(lambda: len(loaded_programs() - before) >= expected)
    ahead = loaded_programs() - before
    with open_object("follow") as taken:
        then(taken)
        taken.load()
        programs = loaded_programs() - before
        assert len(programs) == (3 if then is without_a_program else 4), "what isn't taken is freed"
    assert loaded_programs() == before
    return {"ahead": ahead, "taken": programs}


def test_a_refusal_is_said_of_what_is_loaded_for_good() -> None:
    opened = open_object("follow")
    opened.resize_map("targets", TOO_MANY)
    opened.load_ahead()
    with open_object("follow") as again:
        again.resize_map("targets", TOO_MANY)
        with pytest.raises(SsllatencyError, match="failed to load object 'follow'"):
            again.load()
    with open_object("follow") as good:
        good.load()


def test_programs_of_a_group_are_loaded_together_once_one_is_asked_for() -> None:
    before = loaded_programs()
    with open_object("ssllatency") as opened:
        for name in opened.program_names():
            group = "Go" if name in GO else ""
            opened.choose_program(name, load=name in ("at_exit", *GO), attach_type=kernel.TRACE_UPROBE_MULTI, group=group)
        opened.load()
        assert loaded_programs() - before == {opened.program_fd("at_exit")}
        assert opened.late_programs == ()
        loaded_later = {opened.program_fd(name) for name in GO}
        assert loaded_programs() - before == {opened.program_fd("at_exit"), *loaded_later}
        assert sorted(opened.late_programs) == sorted(GO)
        maps = maps_of(opened.program_fd("at_go_exit"))
        assert maps & maps_of(opened.program_fd("at_exit"))
        assert maps & maps_of(opened.program_fd("at_go_entry"))
    assert loaded_programs() == before


def maps_of(descriptor: int) -> set[int]:
    """The numbers of the maps that a program uses."""
    return set(json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show", "id", prog_id(descriptor)]))["map_ids"])


def prog_id(descriptor: int) -> str:
    """The kernel's number of a program."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("prog_id:"))
