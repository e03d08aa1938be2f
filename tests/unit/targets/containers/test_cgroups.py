# SPDX-License-Identifier: Apache-2.0
"""Cgroups by their folders and paths, and who is in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import Selection, cgroup_folder, is_unified, members, select, with_folder
from ssllatency.targets.containers.cgroups import cgroup_members, unit_folder

A, B, C = (5_000_000 + number for number in range(3))


pytestmark = pytest.mark.usefixtures("hierarchies")


@pytest.fixture
def hierarchies(proc: Path, tmp_path: Path) -> Path:
    """Cgroup 1 and 2, each with a service of the same name; in that of cgroup 2 another one lies."""
    (proc / "self").mkdir()
    top = tmp_path / "cg roups"
    lines = []
    for number, (kind, name) in enumerate((("cgroup", "memory"), ("cgroup2", "unified"))):
        folder = top / name / "system.slice" / "nginx.service"
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(f"{A}\n" if kind == "cgroup2" else "")
        point = str(top / name).replace(" ", "\\040")
        lines.append(f"{30 + number} 25 0:{26 + number} / {point} rw,nosuid shared:9 - {kind} {kind} rw\n")
    below = top / "unified" / "system.slice" / "nginx.service" / "workers"
    below.mkdir()
    (below / "cgroup.procs").write_text(f"{B}\n0\n")
    (proc / "self" / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/vda rw\n" + "".join(lines))
    return top


def test_a_path_of_proc_is_looked_for_in_cgroup_2_first(proc: Path, hierarchies: Path) -> None:
    found = cgroup_folder("/system.slice/nginx.service", proc)
    assert found == hierarchies / "unified" / "system.slice" / "nginx.service"
    assert is_unified(found, proc)


def test_a_folder_is_taken_as_it_is(proc: Path, hierarchies: Path) -> None:
    folder = hierarchies / "memory" / "system.slice" / "nginx.service"
    assert cgroup_folder(str(folder), proc) == folder
    assert not is_unified(folder, proc)


def test_what_is_no_cgroup_is_refused(proc: Path, hierarchies: Path) -> None:
    for name in ("/nowhere", str(hierarchies)):
        with pytest.raises(SsllatencyError, match="There is no cgroup"):
            cgroup_folder(name, proc)


def test_members_are_those_of_the_cgroups_below_as_well(proc: Path) -> None:
    folder = cgroup_folder("system.slice/nginx.service", proc)
    assert cgroup_members(folder) == {A, B}
    assert cgroup_members(folder / "gone") == set()


def test_a_cgroup_selects(proc: Path, add_process: Callable[..., Path]) -> None:
    for pid in (A, B, C):
        add_process(pid)
    selection = Selection(cgroup="/system.slice/nginx.service")
    assert [process.pid for process in select(selection, proc)] == [A, B]


def test_an_empty_cgroup_is_said_unless_nobody_will_do(proc: Path, hierarchies: Path) -> None:
    selection = Selection(cgroup=str(hierarchies / "memory" / "system.slice" / "nginx.service"))
    with pytest.raises(SsllatencyError, match="No process is in the cgroup"):
        select(selection, proc)
    assert select(selection, proc, nobody=True) == []


def test_who_belongs_by_name_is_told_from_kin(proc: Path, add_process: Callable[..., Path]) -> None:
    add_process(A, comm=b"nginx")
    add_process(B, ppid=A, comm=b"nginx")
    add_process(C, comm=b"nginx")
    assert members(Selection(pids=(A,), comms=("nginx",)), proc) == {A: False, B: False, C: True}
    assert members(Selection(comms=("nginx",)), proc) == {A: True, B: True, C: True}
    assert members(Selection(pids=(A,)), proc) == {A: False, B: False}


@pytest.fixture
def units(hierarchies: Path, proc: Path, tmp_path: Path) -> Path:  # noqa: ARG001 - replaces them
    """systemd's own hierarchy of cgroup 1, as on a machine without cgroup 2, and another one that has fewer units."""
    lines = []
    for number, name in enumerate(("memory", "systemd")):
        (tmp_path / "v1" / name).mkdir(parents=True)
        controllers = "rw,memory" if name == "memory" else "rw,xattr,name=systemd"
        lines.append(f"{30 + number} 25 0:{26 + number} / {tmp_path}/v1/{name} rw - cgroup cgroup {controllers}\n")
    (proc / "self" / "mountinfo").write_text("".join(lines))
    places = (
        "systemd/system.slice/nginx.service",
        "systemd/system.slice/system-web.slice/web@1.service",
        "systemd/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service",
        "memory/system.slice/other.service",
        "systemd/system.slice/nginx.service/hidden.service",
    )
    for place in places:
        folder = tmp_path / "v1" / place
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(f"{A}\n")
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return tmp_path / "v1/systemd"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("nginx.service", "system.slice/nginx.service"),
        ("nginx", "system.slice/nginx.service"),
        ("web@1", "system.slice/system-web.slice/web@1.service"),
    ],
)
def test_a_units_cgroup(proc: Path, units: Path, tmp_path: Path, name: str, place: str) -> None:
    assert unit_folder(name, proc, tmp_path) == units / place


def test_a_users_unit_does_not_stand_in_for_one_of_the_systems(proc: Path, units: Path, tmp_path: Path) -> None:
    """Whatever its user has called it: it is named by its cgroup."""
    place = "user.slice/user-1000.slice/user@1000.service/app.slice/mine.service"
    reason = rf"mine\.service isn't one of the system's, but of user@1000\.service: --cgroup {units / place} names that\."
    with pytest.raises(SsllatencyError, match=reason):
        unit_folder("mine", proc, tmp_path)
    assert unit_folder("mine", proc, tmp_path, nobody=True) == units / "system.slice" / "mine.service"


def test_a_unit_in_cgroup_2(proc: Path, hierarchies: Path, tmp_path: Path) -> None:
    assert unit_folder("nginx", proc, tmp_path) == hierarchies / "unified" / "system.slice" / "nginx.service"


@pytest.mark.parametrize("name", ["ngin", "other", "hidden"])
def test_a_unit_that_does_not_run(proc: Path, units: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(SsllatencyError, match=rf"The unit {name}.service isn't running: "):
        unit_folder(name, proc, tmp_path)
    assert unit_folder(name, proc, tmp_path, nobody=True) == units / "system.slice" / f"{name}.service"


@pytest.mark.usefixtures("units")
def test_a_misspelt_unit(proc: Path, tmp_path: Path) -> None:
    with pytest.raises(SsllatencyError, match=r"ngnix.service isn't running: did you mean nginx.service\? check its name"):
        unit_folder("ngnix", proc, tmp_path)


@pytest.mark.usefixtures("units")
def test_units_where_systemd_is_not(proc: Path, tmp_path: Path) -> None:
    for nobody in (False, True):
        with pytest.raises(SsllatencyError, match=r"There is no unit ngin\.service, as systemd doesn't manage this machine"):
            unit_folder("ngin", proc, tmp_path / "elsewhere", nobody=nobody)


@pytest.mark.parametrize("name", ["../x", "a b", "", "x" * 300])
def test_what_is_no_units_name(proc: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(SsllatencyError, match="isn't a unit's name"):
        unit_folder(name, proc, tmp_path)


@pytest.mark.usefixtures("units")
def test_a_unit_selects(proc: Path, add_process: Callable[..., Path]) -> None:
    add_process(A)
    add_process(B)
    assert [process.pid for process in select(Selection(unit="nginx"), proc)] == [A]
    assert members(with_folder(Selection(unit="nginx"), proc), proc) == {A: True}
