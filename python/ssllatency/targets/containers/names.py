# SPDX-License-Identifier: Apache-2.0
"""The names of containers, from the files of the runtimes (readable by root): Docker's config.v2.json, Podman's
containers.json, and the names of the log files that Kubernetes links, POD_NAMESPACE_CONTAINER-ID.log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DOCKER = "var/lib/docker/containers"
_PODMAN = "var/lib/containers/storage/overlay-containers/containers.json"
_KUBERNETES = "var/log/containers"
_LOG = re.compile(r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-(?P<id>[0-9a-f]{64})\.log")
_LARGEST = 16 << 20


def container_names(ids: Iterable[str], root: Path = Path("/")) -> dict[str, str]:
    """ID to name, as far as it is known; a container of Kubernetes is called NAMESPACE/POD/CONTAINER."""
    names = {**_kubernetes(root / _KUBERNETES), **_podman(root / _PODMAN)}
    for container_id in ids:
        if container_id not in names and re.fullmatch(r"[0-9a-f]{64}", container_id):
            config = _json(root / _DOCKER / container_id / "config.v2.json")
            name = config.get("Name") if isinstance(config, dict) else None
            if isinstance(name, str) and name.strip("/"):
                names[container_id] = name.strip("/")
    return names


def _kubernetes(folder: Path) -> dict[str, str]:
    try:
        logs = [match for path in folder.iterdir() if (match := _LOG.fullmatch(path.name))]
    except OSError:
        return {}
    return {log["id"]: f"{log['namespace']}/{log['pod']}/{log['container']}" for log in logs}


def _podman(path: Path) -> dict[str, str]:
    entries = _json(path)
    containers = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    pairs = ((entry.get("id"), entry.get("names")) for entry in containers)
    return {
        container_id: names[0]
        for container_id, names in pairs
        if isinstance(container_id, str) and isinstance(names, list) and names and isinstance(names[0], str)
    }


def _json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
