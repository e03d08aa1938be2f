# SPDX-License-Identifier: Apache-2.0
"""Which service a process belongs to, by the paths of its cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.targets.containers.service import Service, ServiceKind, service_in, service_of

ID = "3f" * 32
UID = "0123abcd-0123-4567-89ab-0123456789ab"
POD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"


def service(path: str, names: dict[str, str] | None = None, hierarchy: str = "0::") -> Service:
    return service_in(f"{hierarchy}{path}\n", "nginx", lambda _: names or {})


@pytest.mark.parametrize(
    ("path", "names", "expected"),
    [
        ("/system.slice/nginx.service", {}, Service("nginx.service", ServiceKind.UNIT)),
        ("/system.slice/system-pg.slice/pg@15-main.service", {}, Service("pg@15-main.service", ServiceKind.UNIT)),
        ("/system.slice/my\\x2dapp.service", {}, Service("my-app.service", ServiceKind.UNIT)),
        ("/system.slice/nginx.service/workers (deleted)", {}, Service("nginx.service", ServiceKind.UNIT)),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service",
            {},
            Service("user@1000.service/nginx.service", ServiceKind.UNIT),
        ),
        ("/system.slice/mine.service/system.slice/nginx.service", {}, Service("mine.service", ServiceKind.UNIT)),
        (
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            {ID: "web"},
            Service("user@1000.service/podman:3f3f3f3f3f3f", ServiceKind.CONTAINER),  # it may have been given another's ID
        ),
        (f"/docker/{'a' * 64}/docker-{ID}.scope", {ID: "web"}, Service("docker:3f3f3f3f3f3f", ServiceKind.CONTAINER)),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", {}, Service("user@1000.service/nginx", ServiceKind.COMM)),
        ("/user.slice/user-1000.slice/session-3.scope", {}, Service("user-1000.slice/nginx", ServiceKind.COMM)),
        ("/user.slice/user-x.slice/session-3.scope", {}, Service("nginx", ServiceKind.COMM)),
        ("/system.slice/mine.service/user-1000.slice/x", {}, Service("mine.service", ServiceKind.UNIT)),
        (
            f"/docker/{ID}/user.slice/user-1000.slice/user@1000.service/x",
            {ID: "web"},
            Service("docker:web", ServiceKind.CONTAINER),
        ),
        (
            f"/user.slice/user-1000.slice/session-3.scope/docker-{ID}.scope",
            {ID: "web"},
            Service("user-1000.slice/docker:3f3f3f3f3f3f", ServiceKind.CONTAINER),
        ),
        ("/", {}, Service("nginx", ServiceKind.COMM)),
        (f"/system.slice/docker-{ID}.scope", {ID: "web"}, Service("docker:web", ServiceKind.CONTAINER)),
        (f"/system.slice/docker-{ID}.scope", {}, Service("docker:3f3f3f3f3f3f", ServiceKind.CONTAINER)),
        (f"{POD}/cri-containerd-{ID}.scope", {ID: "shop/web-7f9c/nginx"}, Service("shop/web-7f9c", ServiceKind.POD)),
        (f"{POD}/cri-containerd-{ID}.scope", {}, Service("pod:0123abcd", ServiceKind.POD)),
    ],
)
def test_the_service_is_the_innermost_that_has_a_name(path: str, names: dict[str, str], expected: Service) -> None:
    assert service(path, names) == expected


@pytest.mark.parametrize("comm", ["nginx.service", "a.scope", "user-1000.slice", "docker:web", "user@1/nginx", "comm:nginx"])
def test_no_name_of_a_process_poses_as_anothers(comm: str) -> None:
    """Of one in a session, and of one where no systemd tells whose it is."""
    session = "0::/user.slice/user-1000.slice/session-3.scope\n"
    for cgroup, before in ((session, "user-1000.slice/"), ("0::/\n", "comm:"), ("", "comm:")):
        assert service_in(cgroup, comm, lambda _: {}) == Service(before + comm, ServiceKind.COMM)


def test_cgroup_1_has_the_unit_in_systemds_own_hierarchy() -> None:
    text = "4:memory:/system.slice/other.service\n1:name=systemd:/system.slice/nginx.service\n0::/\n"
    assert service_in(text, "nginx", lambda _: {}).name == "nginx.service"


def test_a_process_that_has_ended_has_its_name(tmp_path: Path) -> None:
    assert service_of(5_000_000, "nginx", tmp_path) == Service("nginx", ServiceKind.COMM)


def test_a_process_is_looked_up_in_proc(tmp_path: Path) -> None:
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "cgroup").write_text("0::/system.slice/nginx.service\n")
    assert service_of(17, "nginx", tmp_path, tmp_path) == Service("nginx.service", ServiceKind.UNIT)
