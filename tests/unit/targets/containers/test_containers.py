# SPDX-License-Identifier: Apache-2.0
"""Containers by the paths of their cgroups, in the forms that runtimes document; one is found by ID, beginning, name or pod."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import Selection, all_processes, select
from ssllatency.targets.containers.container import Container, containers_in, containers_of, in_container, parse_cgroup
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.containers.service import service_of

AddProcess = Callable[..., Path]

ID = "3f2a1b9c4d5e" + "0123456789abcdef" * 3 + "beef"
OTHER = "3f2b" + "5" * 60
UID = "5f3c8a10-1b2c-4d5e-8f90-a1b2c3d4e5f6"
SLICE_UID = UID.replace("-", "_")
USER = "user@1000.service/"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (f"/docker/{ID}", [Container("docker", ID)]),
        (f"/system.slice/docker-{ID}.scope", [Container("docker", ID)]),
        (f"/system.slice/docker-{ID}.scope/init.scope", [Container("docker", ID)]),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope", [Container("docker", ID, owner=USER)]),
        (f"/docker/buildkit/{ID}", [Container("docker", ID)]),
        (f"/machine.slice/libpod-{ID}.scope", [Container("podman", ID)]),
        (f"/machine.slice/libpod-{ID}.scope/container", [Container("podman", ID)]),
        (f"/machine.slice/machine-libpod_pod_{OTHER}.slice/libpod-{ID}.scope/container", [Container("podman", ID)]),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            [Container("podman", ID, owner=USER)],
        ),
        (f"/libpod_parent/libpod-{ID}", [Container("podman", ID)]),
        (f"/system.slice/web.service/libpod-payload-{ID}", [Container("podman", ID)]),
        (f"/machine.slice/libpod-conmon-{ID}.scope", []),
        ("/default/web", [Container("containerd", "web")]),
        (f"/system.slice/nerdctl-{ID}.scope", [Container("nerdctl", ID)]),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-{ID}.scope",
            [Container("nerdctl", ID, owner=USER)],
        ),
        (f"/kubepods/burstable/pod{UID}/{ID}", [Container("kubernetes", ID, UID)]),
        (f"/kubepods/pod{UID}/{ID}", [Container("kubernetes", ID, UID)]),
        (f"/kubepods/besteffort/pod{UID}/crio-{ID}", [Container("cri-o", ID, UID)]),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope",
            [Container("containerd", ID, UID)],
        ),
        (f"/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-{ID}.scope/container", [Container("cri-o", ID, UID)]),
        (f"/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-conmon-{ID}.scope", []),
        (
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice/docker-{ID}.scope",
            [Container("docker", ID, UID)],
        ),
        (
            f"/system.slice/containerd.service/kubepods-burstable-pod{SLICE_UID}.slice:cri-containerd:{ID}",
            [Container("containerd", ID, UID)],
        ),
        (f"/kubepods/burstable/pod{'a1' * 16}/{ID}", [Container("kubernetes", ID, "a1" * 16)]),  # a static pod
        (
            f"/docker/{OTHER}/kubelet/kubepods/besteffort/pod{UID}/{ID}",  # Kubernetes in Docker
            [Container("docker", OTHER), Container("kubernetes", ID, UID, within=OTHER)],
        ),
        (f"/ecs/{'0a' * 16}/{'0a' * 16}-2531612879", [Container("ecs", f"{'0a' * 16}-2531612879")]),
        (f"/ecs/cluster/{'0a' * 16}/{ID}", [Container("ecs", ID)]),
        (f"/../../docker-{ID}.scope", [Container("docker", ID)]),  # seen from a cgroup namespace of our own
        (f"/../{ID}", [Container("container", ID)]),
        (f"/docker/{ID} (deleted)", [Container("docker", ID)]),
        ("/lxc/web", [Container("lxc", "web")]),
        ("/lxc.payload.web/system.slice/nginx.service", [Container("lxc", "web")]),
        ("/lxc.monitor.web", []),
        ("/machine.slice/systemd-nspawn@web.service/payload", [Container("nspawn", "web")]),
        ("/machine.slice/machine-deb\\x2d13.scope", [Container("nspawn", "deb-13")]),
        ("/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", []),
        ("/", []),
        ("", []),
        ("/default", []),
        ("/default/", []),
        ("/system.slice/nginx.service", []),
        ("/system.slice/docker.service", []),
        (f"/docker/{ID[:-1]}", []),
        (f"/docker/{ID}f", []),
        ("/user.slice/user-1000.slice/session-3.scope", []),
    ],
)
def test_paths(path: str, found: list[Container]) -> None:
    assert list(containers_in(path)) == found


def test_the_hierarchies_of_cgroup_v1() -> None:
    text = f"12:pids:/docker/{ID}\n11:cpu,cpuacct:/docker/{ID}\n1:rdma:/\n0::/system.slice/x.service\n"
    assert parse_cgroup(text) == (Container("docker", ID),)


@pytest.mark.parametrize("text", ["", "\n", "garbage", "0:", "::", "0::\n1:\n"])
def test_odd_texts_name_none(text: str) -> None:
    assert parse_cgroup(text) == ()


@pytest.mark.parametrize(
    ("container", "shown"),
    [
        (Container("docker", ID), "docker:3f2a1b9c4d5e"),
        (Container("docker", ID, name="web"), "docker:web"),
        (Container("lxc", "a-rather-long-name"), "lxc:a-rather-long-name"),
    ],
)
def test_an_id_is_shown_short(container: Container, shown: str) -> None:
    assert container.shown == shown


@pytest.fixture
def containers(proc: Path, add_process: AddProcess) -> Path:
    paths = {
        10: "0::/\n",
        20: f"0::/system.slice/docker-{ID}.scope\n",
        21: f"0::/system.slice/docker-{ID}.scope/kubepods/pod{UID}/{'c' * 64}\n",
        30: f"0::/kubepods/pod{UID}/{OTHER}\n",
        40: "0::/default/web\n",
    }
    for pid, text in paths.items():
        (add_process(pid) / "cgroup").write_text(text)
    add_process(50)
    return proc


def pids(wanted: str, proc: Path, root: Path) -> list[int]:
    return [process.pid for process in in_container(wanted, all_processes(proc), proc, root)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ID, [20, 21]),
        ("3f2a", [20, 21]),
        ("docker:3f2a1b9c4d5e", [20, 21]),
        ("ccc", [21]),
        (OTHER, [30]),
        ("web", [40]),
        ("containerd:web", [40]),
        (UID, [30]),  # not one in a container, which may have chosen that
        ("shop", [30]),
        ("docker:shop", [30]),
    ],
)
def test_whom_a_name_selects(containers: Path, tmp_path: Path, wanted: str, expected: list[int]) -> None:
    folder = tmp_path / "var/lib/docker/containers" / OTHER
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({"ID": OTHER, "Name": "/shop"}))
    assert pids(wanted, containers, tmp_path) == expected


def test_a_beginning_that_several_share(containers: Path, tmp_path: Path) -> None:
    with pytest.raises(SsllatencyError, match=r"3f2 fits 2 containers \(docker:3f2a1b9c4d5e, kubernetes:3f2b55555555\)"):
        pids("3f2", containers, tmp_path)


@pytest.mark.parametrize("wanted", ["", "nothing", "docker:", "0::/"])
def test_nobody_is_in_it(containers: Path, tmp_path: Path, wanted: str) -> None:
    with pytest.raises(SsllatencyError, match="No process is in a container"):
        pids(wanted, containers, tmp_path)


def test_as_a_selection(containers: Path) -> None:
    assert [process.pid for process in select(Selection(container="3f2a"), containers)] == [20, 21]
    assert [process.pid for process in select(Selection(pids=(10,), container="web"), containers)] == [10, 40]


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_no_name_of_a_cgroup_begins_another_line(proc: Path, end: str) -> None:
    """A cgroup's name may hold any character but a newline and /: what a user makes of them stays that user's."""
    (proc / "17").mkdir()
    path = f"/user.slice/user-1000.slice/user@1000.service/x{end}0::/docker/{ID}"
    (proc / "17" / "cgroup").write_bytes(f"0::{path}\n".encode())
    assert containers_of(17, proc) == (Container("docker", ID, owner=USER),)
    assert service_of(17, "x", proc, proc).name == f"{USER}docker:{ID[:12]}"


def test_a_process_gone_is_in_none(proc: Path) -> None:
    assert containers_of(4711, proc) == ()


def test_names_that_runtimes_keep(tmp_path: Path) -> None:
    docker, podman, pod = ID, OTHER, "d" * 64
    (tmp_path / "var/lib/docker/containers" / docker).mkdir(parents=True)
    (tmp_path / "var/lib/docker/containers" / docker / "config.v2.json").write_text('{"Name": "/web"}')
    (tmp_path / "var/lib/containers/storage/overlay-containers").mkdir(parents=True)
    entries = [{"id": podman, "names": ["db"]}, {"id": 5}, "odd", {"id": "x", "names": []}]
    (tmp_path / "var/lib/containers/storage/overlay-containers/containers.json").write_text(json.dumps(entries))
    (tmp_path / "var/log/containers").mkdir(parents=True)
    (tmp_path / f"var/log/containers/web-7d4_prod_nginx-{pod}.log").touch()
    (tmp_path / "var/log/containers/odd.log").touch()
    names = container_names([docker, podman, pod, "e" * 64, "../../etc"], tmp_path)
    assert names == {docker: "web", podman: "db", pod: "prod/web-7d4/nginx"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"Name": 5}', '{"Name": "/"}', "[" * 100000])
def test_odd_files_name_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "var/lib/docker/containers" / ID).mkdir(parents=True)
    (tmp_path / "var/lib/docker/containers" / ID / "config.v2.json").write_text(text)
    (tmp_path / "var/lib/containers/storage/overlay-containers").mkdir(parents=True)
    (tmp_path / "var/lib/containers/storage/overlay-containers/containers.json").write_text(text)
    assert container_names([ID], tmp_path) == {}


def test_a_container_of_a_user_is_not_one_of_the_systems(containers: Path, add_process: AddProcess, tmp_path: Path) -> None:
    """Users may give cgroups below their own systemd any name: the ID of somebody else's container, say."""
    folder = tmp_path / "var/lib/docker/containers" / ID
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({"Name": "/shop"}))
    user = "0::/user.slice/user-{0}.slice/user@{0}.service/docker-{1}.scope\n"
    for pid, text in ((60, user.format(1000, ID)), (61, user.format(1000, "d" * 64)), (62, user.format(1001, "d" * 64))):
        (add_process(pid) / "cgroup").write_text(text)
    assert (
        pids("shop", containers, tmp_path) == pids(ID, containers, tmp_path) == pids("3f2a", containers, tmp_path) == [20, 21]
    )
    with pytest.raises(
        SsllatencyError, match=r"fits 2 containers \(user@1000.service/docker:d+, user@1001.service/docker:d+\)"
    ):
        pids("d" * 64, containers, tmp_path)
    (add_process(70) / "cgroup").write_text(f"0::/system.slice/docker-{'e' * 64}.scope/docker-{ID}.scope\n")
    assert pids("shop", containers, tmp_path) == [20, 21], "nor is one within a container, which may have made it"
    (containers / "70" / "cgroup").write_text("0::/\n")
    for pid in (20, 21):
        (containers / str(pid) / "cgroup").write_text("0::/\n")
    with pytest.raises(SsllatencyError, match="No process is in a container shop"):
        pids("shop", containers, tmp_path)
    assert pids(ID, containers, tmp_path) == [60]
