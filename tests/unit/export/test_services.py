# SPDX-License-Identifier: Apache-2.0
"""Whose a process is, by its cgroup and name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssllatency.export.services import Services

ID = "0123456789abcdef" * 4
UID = "5a2c1f3e-1111-2222-3333-444455556666"
CASES = {
    "0::/system.slice/nginx.service": {"service": "nginx.service", "comm": "x"},
    "0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service": {
        "service": "user@1000.service/web.service",
        "comm": "x",
    },
    "0::/user.slice/user-1000.slice/session-3.scope": {"service": "user-1000.slice/x", "comm": "x"},
    "1:name=systemd:/system.slice/old.service\n4:memory:/other.service": {"service": "old.service", "comm": "x"},
    "": {"service": "x", "comm": "x"},
    f"0::/system.slice/docker-{ID}.scope": {
        "service": "shop",
        "comm": "x",
        "container.id": ID,
        "container.name": "shop",
        "container.image.name": "shop/web:2.7",
    },
    f"0::/system.slice/docker-{ID[::-1]}.scope": {
        "service": f"docker:{ID[::-1][:12]}",
        "comm": "x",
        "container.id": ID[::-1],
    },
    # A user's own, who may call it by anybody's ID.
    f"0::/user.slice/user-1000.slice/user@1000.service/docker-{ID}.scope": {
        "service": f"user@1000.service/docker:{ID[:12]}",
        "comm": "x",
        "container.id": f"user@1000.service/{ID}",
    },
    f"0::/user.slice/user-1000.slice/user@1000.service/kubepods-pod{UID}.slice/cri-containerd-{'a' * 64}.scope": {
        "service": f"user@1000.service/containerd:{'a' * 12}",
        "comm": "x",
        "container.id": f"user@1000.service/{'a' * 64}",
        "k8s.pod.uid": f"user@1000.service/{UID}",
    },
    # One within a container of another: the host's runtimes know the outer one alone.
    f"0::/system.slice/docker-{'b' * 64}.scope/docker-{ID}.scope": {
        "service": f"docker:{ID[:12]}",
        "comm": "x",
        "container.id": ID,
    },
    f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{'a' * 64}.scope": {
        "service": "web",
        "comm": "x",
        "container.id": "a" * 64,
        "k8s.pod.uid": UID,
        "k8s.pod.name": "web-7d",
        "k8s.namespace.name": "prod",
        "k8s.container.name": "web",
    },
}


@pytest.fixture
def services(tmp_path: Path) -> Services:
    docker = tmp_path / "var/lib/docker/containers" / ID
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text(json.dumps({"Name": "/shop", "Config": {"Image": "shop/web:2.7"}}))
    logs = tmp_path / "var/log/containers"
    logs.mkdir(parents=True)
    (logs / f"web-7d_prod_web-{'a' * 64}.log").touch()
    proc = tmp_path / "proc" / "7"
    proc.mkdir(parents=True)
    (proc / "stat").write_text("7 (ngi nx) S 1 " + "0 " * 17 + "4242 0")
    (proc / "cgroup").write_text("0::/system.slice/nginx.service\n")
    return Services(tmp_path / "proc", tmp_path)


@pytest.mark.parametrize("cgroup", CASES)
def test_labels(services: Services, cgroup: str) -> None:
    assert dict(services.labels_in("x", cgroup)) == CASES[cgroup]


def test_a_process_that_is_there_and_one_that_is_not(services: Services) -> None:
    assert services.started(7) == 4242
    there = services.known(7, "")
    assert (there.started, dict(there.labels)) == (4242, {"service": "nginx.service", "comm": "ngi nx"})
    assert services.started(8) is None
    gone = services.known(8, "gone")
    assert (gone.started, dict(gone.labels)) == (0, {"service": "gone", "comm": "gone"})


def test_a_pid_that_is_used_again_while_it_is_looked_at(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process's start isn't kept with another's service, nor an ended one's name with what came after."""
    stat, read = tmp_path / "proc/7/stat", services._cgroup

    def other(pid: int) -> str:
        text = read(pid)
        if "4242" in stat.read_text():
            stat.write_text("7 (postgres) S 1 " + "0 " * 17 + "5353 0")
            (tmp_path / "proc/7/cgroup").write_text("0::/system.slice/postgres.service\n")
        return text

    monkeypatch.setattr(services, "_cgroup", other)
    known = services.known(7, "")
    assert (known.started, dict(known.labels)) == (5353, {"service": "postgres.service", "comm": "postgres"})


def test_no_name_of_a_process_poses_as_a_unit(services: Services) -> None:
    session = "0::/user.slice/user-1000.slice/session-3.scope"
    assert dict(services.labels_in("nginx.service", session))["service"] == "user-1000.slice/nginx.service"
    assert dict(services.labels_in("nginx.service", "0::/"))["service"] == "comm:nginx.service"
    assert dict(services.labels_in("nginx", "0::/"))["service"] == "nginx"


def test_the_id_of_a_container_tells_it_from_a_process_of_its_name(services: Services) -> None:
    """As docs/reference/export.md says; the names are the same."""
    contained, process = (dict(services.labels_in("shop", path)) for path in (f"0::/system.slice/docker-{ID}.scope", "0::/"))
    assert contained["service"] == process["service"] == "shop"
    assert contained["container.id"] == ID
    assert "container.id" not in process
    assert dict(services.labels_in(f"docker:{ID[:3]}", "0::/"))["service"].startswith("comm:")


def test_names_are_harmless_and_bounded(services: Services) -> None:
    found = dict(services.labels_in("a\x1b[2J\n" + "y" * 1000, ""))
    assert found["comm"].startswith("a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}yyy")
    assert len(found["comm"]) == 250


def test_no_name_ends_the_text_that_a_query_puts_it_into(services: Services) -> None:
    """Grafana puts a label's value between quotes as it is: a process called `"} or vector(9` would be part of the query."""
    for name in ('x"} or vector(9', "x\\", "x`y"):
        found = dict(services.labels_in(name, ""))
        assert found["service"] == found["comm"] == "".join("\N{REPLACEMENT CHARACTER}" if c in '"\\`' else c for c in name)
