# SPDX-License-Identifier: Apache-2.0
"""The names of containers, from the files of the runtimes (readable by root): Docker's config.v2.json, Podman's
containers.json, and the names of the log files that Kubernetes links, POD_NAMESPACE_CONTAINER-ID.log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ssllatency.targets.containers.images import DOCKER, STORAGE, STORAGE_FILES
from ssllatency.targets.containers.runtime_files import is_id, read_json, text_in

_KUBERNETES = "var/log/containers"
_LOG = re.compile(r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-(?P<id>[0-9a-f]{64})\.log")


def container_names(ids: Iterable[str], root: Path = Path("/")) -> dict[str, str]:
    """ID to name, as far as it is known; a container of Kubernetes is called NAMESPACE/POD/CONTAINER."""
    names = {**_kubernetes(root / _KUBERNETES), **_podman(root / STORAGE)}
    for container_id in ids:
        if container_id not in names and is_id(container_id):
            name = text_in(read_json(root / DOCKER, f"{container_id}/config.v2.json"), "Name").strip("/")
            if name:
                names[container_id] = name
    return names


def _kubernetes(folder: Path) -> dict[str, str]:
    try:
        logs = [match for path in folder.iterdir() if (match := _LOG.fullmatch(path.name))]
    except OSError:
        return {}
    return {log["id"]: f"{log['namespace']}/{log['pod']}/{log['container']}" for log in logs}


def _podman(folder: Path) -> dict[str, str]:
    lists = (read_json(folder, name) for name in STORAGE_FILES)
    containers = [entry for entries in lists if isinstance(entries, list) for entry in entries if isinstance(entry, dict)]
    pairs = ((entry.get("id"), entry.get("names")) for entry in containers)
    return {
        container_id: names[0]
        for container_id, names in pairs
        if isinstance(container_id, str) and isinstance(names, list) and names and isinstance(names[0], str)
    }
