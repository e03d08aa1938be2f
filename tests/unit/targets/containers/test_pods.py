# SPDX-License-Identifier: Apache-2.0
"""Kubernetes pods by name, namespace and UID: from kubelet's folders, else from the host names in their containers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import Selection, all_processes, members, select
from ssllatency.targets.containers.pods import in_pod, pod_names

AddProcess = Callable[..., Path]

WEB, TWIN, STATIC, UNKNOWN = (f"5f3c8a10-1b2c-4d5e-8f90-a1b2c3d4e5f{number}" for number in range(4))
A, B, C, D, E, F, G = (5_000_000 + number for number in range(7))


@pytest.fixture
def pods(proc: Path, add_process: AddProcess, tmp_path: Path) -> Path:
    """Two pods of one name, one of them with two containers; a third; and one for which kubelet has no folder."""
    inside = ((A, WEB, "a"), (B, WEB, "b"), (C, TWIN, "c"), (D, STATIC, "d"), (E, UNKNOWN, "e"), (F, UNKNOWN, "f"))
    for pid, uid, letter in inside:
        etc = tmp_path / letter / "etc"
        folder = add_process(pid, ppid=1, root=str(etc.parent))
        (folder / "cgroup").write_text(f"0::/kubepods/burstable/pod{uid}/{letter * 64}\n")
        etc.mkdir(parents=True)
        if pid != E:
            (etc / "hostname").write_text("proxy-0\n" if pid == F else "node\n")
    (add_process(G) / "cgroup").write_text("0::/system.slice/nginx.service\n")
    for name in (f"shop_web-0_{WEB}", f"test_web-0_{TWIN}", f"kube-system_etcd-node_{STATIC}", "no-pod", f"a_b_{'x' * 36}"):
        (tmp_path / "var/log/pods" / name).mkdir(parents=True)
    return proc


def pids(wanted: str, proc: Path, root: Path) -> list[int]:
    return [process.pid for process in in_pod(wanted, all_processes(proc), proc, root)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("shop/web-0", [A, B]), ("test/web-0", [C]), (TWIN, [C]), ("etcd-node", [D]), ("proxy-0", [E, F]), (UNKNOWN, [E, F])],
)
def test_whom_a_pods_name_selects(pods: Path, tmp_path: Path, wanted: str, expected: list[int]) -> None:
    assert pids(wanted, pods, tmp_path) == expected


def test_cgroups_that_others_call_like_a_pod_are_not_it(pods: Path, add_process: AddProcess, tmp_path: Path) -> None:
    for pid, above in ((G + 1, "/user.slice/user-7.slice/user@7.service"), (G + 2, f"/docker/{'9' * 64}")):
        (add_process(pid) / "cgroup").write_text(f"0::{above}/pod{WEB}/{'a' * 64}\n")
    assert pids("shop/web-0", pods, tmp_path) == pids(WEB, pods, tmp_path) == [A, B]
    for pid in (A, B):
        (pods / str(pid) / "cgroup").write_text("0::/\n")
    assert pids(WEB, pods, tmp_path) == [G + 2], "Kubernetes in a container"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("web-0", "There are 2 pods web-0: name one of shop/web-0, test/web-0."),
        ("wep-0", "did you mean web-0? there are kube-system/etcd-node, proxy-0, shop/web-0, test/web-0."),
        ("node", "No process is in a Kubernetes pod node: "),  # a host name doesn't stand in for one that is known
        ("", "No process is in a Kubernetes pod "),
        ("shop/", "No process is in a Kubernetes pod "),
    ],
)
def test_a_pod_that_is_not_meant(pods: Path, tmp_path: Path, wanted: str, sentence: str) -> None:
    with pytest.raises(SsllatencyError) as caught:
        pids(wanted, pods, tmp_path)
    assert sentence in str(caught.value)


def test_a_host_without_pods(proc: Path, add_process: AddProcess, tmp_path: Path) -> None:
    add_process(A)
    with pytest.raises(SsllatencyError, match="web-0: none on this host is in any pod"):
        pids("web-0", proc, tmp_path)


def test_a_host_seen_from_a_pod(pods: Path, add_process: AddProcess, tmp_path: Path) -> None:
    """kubelet's folders are then those of PID 1's file system."""
    add_process(1, ppid=0, root=str(tmp_path))
    assert pids("shop/web-0", pods, tmp_path / "own") == [A, B]


def test_a_pod_as_a_selection(pods: Path) -> None:
    assert [process.pid for process in select(Selection(pod=UNKNOWN), pods)] == [E, F]
    assert select(Selection(pod="gone"), pods, nobody=True) == []
    assert members(Selection(pod="proxy-0"), pods) == {E: False, F: False}
    assert members(Selection(pod="gone"), pods) == {}


@pytest.mark.parametrize("name", ["", "a b", "\x1b[2J", "x" * 300, "Name_0"])
def test_a_host_name_that_is_none(pods: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "f/etc/hostname").write_text(name)
    with pytest.raises(SsllatencyError, match=f"UID {UNKNOWN}"):
        pids("proxy-0", pods, tmp_path)


def test_a_pods_files_are_read_below_its_root(pods: Path, tmp_path: Path) -> None:
    (tmp_path / "f/etc/hostname").unlink()
    (tmp_path / "f/etc/hostname").symlink_to(tmp_path / "d/etc/hostname")
    with pytest.raises(SsllatencyError, match=f"UID {UNKNOWN}"):
        pids("node", pods, tmp_path)


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    assert pod_names(tmp_path) == {}
