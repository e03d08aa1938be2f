# SPDX-License-Identifier: Apache-2.0
"""The image of a container, in made-up files of each runtime; and files that are links, pipes or nonsense."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ssllatency.targets.containers.images import image_of
from ssllatency.targets.containers.names import container_names

ID = "0123456789abcdef" * 4
IMAGE = "registry.example/shop/web:2.7"
DOCKER = f"var/lib/docker/containers/{ID}/config.v2.json"
CONTAINERD = f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json"
CRI_O = f"run/containers/storage/overlay-containers/{ID}/userdata/config.json"
STORAGE = "var/lib/containers/storage/overlay-containers/containers.json"
VOLATILE = "var/lib/containers/storage/overlay-containers/volatile-containers.json"
OTHER = {"id": ID[::-1], "names": ["other"], "metadata": json.dumps({"image-name": "other"})}
STORED = [OTHER, {"id": ID, "names": ["web"], "image": "f" * 64, "metadata": json.dumps({"image-name": IMAGE})}]
CASES: dict[str, object] = {
    DOCKER: {"Name": "/web", "Image": f"sha256:{'f' * 64}", "Config": {"Image": IMAGE}},
    CONTAINERD: {"annotations": {"io.kubernetes.cri.image-name": IMAGE, "io.kubernetes.cri.sandbox-id": "x"}},
    CRI_O: {"annotations": {"io.kubernetes.cri-o.ImageName": IMAGE, "io.kubernetes.cri-o.Image": "f" * 64}},
    STORAGE: STORED,
    VOLATILE: STORED,
}


def put(root: Path, path: str, content: object) -> Path:
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(content if isinstance(content, str) else json.dumps(content))
    return root / path


@pytest.mark.parametrize("path", CASES)
def test_an_image_is_found_in_the_files_of_each_runtime(tmp_path: Path, path: str) -> None:
    assert image_of(ID, tmp_path) == ""
    put(tmp_path, path, CASES[path])
    assert image_of(ID, tmp_path) == IMAGE
    assert image_of("../" + ID[3:], tmp_path) == ""
    assert image_of("f" * 64, tmp_path) == ""


@pytest.mark.parametrize("path", [STORAGE, VOLATILE])
def test_names_are_in_both_lists_of_podman(tmp_path: Path, path: str) -> None:
    put(tmp_path, path, STORED)
    assert container_names([ID], tmp_path) == {ID: "web", ID[::-1]: "other"}


@pytest.mark.parametrize("path", CASES)
@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 100_000,
        "[1, null, []]",
        "7",
        json.dumps({"Config": [IMAGE], "annotations": IMAGE}),
        json.dumps({"Config": {"Image": 7}, "annotations": {"io.kubernetes.cri.image-name": {}}}),
        json.dumps([{"id": ID}]),
        json.dumps([{"id": ID, "metadata": "{"}, {"id": ID, "metadata": json.dumps({"image-name": IMAGE})}]),
        json.dumps([{"id": ID, "metadata": "[" * 100_000}]),
    ],
)
def test_nonsense_tells_nothing(tmp_path: Path, path: str, content: str) -> None:
    put(tmp_path, path, content)
    assert image_of(ID, tmp_path) == ""


@pytest.mark.parametrize("path", CASES)
def test_links_and_pipes_below_the_runtimes_folder_are_not_opened(tmp_path: Path, path: str) -> None:
    file = put(tmp_path, path, CASES[path])
    moved = file.rename(tmp_path / "moved")
    file.symlink_to(moved)
    assert image_of(ID, tmp_path) == ""
    file.unlink()
    os.mkfifo(file)
    assert image_of(ID, tmp_path) == ""


@pytest.mark.parametrize("path", CASES)
def test_a_runtimes_folder_may_lie_elsewhere(tmp_path: Path, path: str) -> None:
    put(tmp_path / "disk", path, CASES[path])
    for folder in ("var", "run"):
        (tmp_path / folder).symlink_to(tmp_path / "disk" / folder)
    assert image_of(ID, tmp_path) == IMAGE
