# SPDX-License-Identifier: Apache-2.0
"""A processor that checks the signatures of return addresses, and libraries that sign them, as Debian 13's for aarch64 do
(-mbranch-protection=standard). A probe that changed a signed address would kill the process."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from ssllatency.elf.image import Image
from tests.kernels.guest.checks.targets import return_probes_count
from tests.kernels.guest.servers import SETTINGS, certificates, traced
from tests.kernels.guest.ways import ways
from tests.live.servers.nginx import Nginx, libssl_of

_PACIASP, _AUTIASP = 0xD503233F, 0xD50323BF


def counted() -> dict[str, Any]:
    """Every way of attaching counts exactly, and so do return probes on every function; the worker lives on."""
    features = _processor_features()
    assert {"paca", "bti"} <= features, f"the processor checks nothing: {sorted(features)}"
    with Nginx(certificates(), SETTINGS) as nginx:
        (worker,) = nginx.worker_pids()
        assert _signs(libssl_of(worker)), "this root's libssl doesn't sign return addresses"
        for method in ways():
            return_probes_count(nginx, worker, method)
        assert nginx.worker_pids() == [worker], "the worker died"
    for method in ways():
        facts = traced("--attach", method)
    return {**facts, "ways": [str(method) for method in ways()]}


def _processor_features() -> set[str]:
    """As the kernel uses them and tells user space."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {word for line in lines if line.startswith("Features") for word in line.partition(":")[2].split()}


def _signs(library: str) -> bool:
    """Whether SSL_do_handshake signs its return address and checks it at its end."""
    image = Image.open(library)
    function = image.function("SSL_do_handshake")
    assert function
    code = image.code(function.address, function.size)
    words = {word for (word,) in struct.iter_unpack("<I", code[: len(code) // 4 * 4])}
    return {_PACIASP, _AUTIASP} <= words
