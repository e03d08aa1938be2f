# SPDX-License-Identifier: Apache-2.0
"""The image that a container was made of, from the files of its runtime: Docker's config.v2.json; the annotations by which
Kubernetes' runtimes pass it on, in the bundle of containerd or CRI-O; containers.json of Podman and CRI-O."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ssllatency.targets.containers.runtime_files import is_id, read_json, text_in

DOCKER = "var/lib/docker/containers"
STORAGE = "var/lib/containers/storage/overlay-containers"
# Those of --rm are in the second, since Podman 4.4.
STORAGE_FILES = ("containers.json", "volatile-containers.json")
_CONTAINERD = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
_CRI_O = "run/containers/storage/overlay-containers"


def image_of(container_id: str, root: Path = Path("/")) -> str:
    """The image's name as the runtime was asked for it, most often with a tag or a digest; "" where it isn't known."""
    if not is_id(container_id):
        return ""
    found = (source(container_id, root) for source in _SOURCES)
    return next(filter(None, found), "")


def _docker(container_id: str, root: Path) -> str:
    return text_in(read_json(root / DOCKER, f"{container_id}/config.v2.json"), "Config", "Image")


def _containerd(container_id: str, root: Path) -> str:
    bundle = read_json(root / _CONTAINERD, f"{container_id}/config.json")
    return text_in(bundle, "annotations", "io.kubernetes.cri.image-name")


def _cri_o(container_id: str, root: Path) -> str:
    bundle = read_json(root / _CRI_O, f"{container_id}/userdata/config.json")
    return text_in(bundle, "annotations", "io.kubernetes.cri-o.ImageName")


def _storage(container_id: str, root: Path) -> str:
    """Read what the runtime has to say of a container, which lies as JSON in a member of its entry."""
    for name in STORAGE_FILES:
        entries = read_json(root / STORAGE, name)
        for entry in entries if isinstance(entries, list) else ():
            if text_in(entry, "id") == container_id:
                return _in_metadata(text_in(entry, "metadata"))
    return ""


def _in_metadata(text: str) -> str:
    try:
        return text_in(json.loads(text), "image-name")
    except (ValueError, RecursionError):
        return ""


_SOURCES: tuple[Callable[[str, Path], str], ...] = (_docker, _containerd, _cri_o, _storage)
