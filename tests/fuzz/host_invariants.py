# SPDX-License-Identifier: Apache-2.0
"""What must hold of what a host's processes and the network say: the paths of control groups, what a Prometheus answers, the
headers of requests, and what one of our processes tells the other. The seeds are beside them, as they are short."""

from __future__ import annotations

import argparse
import base64
import json
import math
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import Distribution, Frames, Point, Reading, Readings
from ssllatency.export.serve.connections import network_of
from ssllatency.export.serve.host_names import may_ask
from ssllatency.export.serve.negotiation import chosen
from ssllatency.export.services import Services
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.prometheus.samples import series_of
from ssllatency.targets.containers.service import owner_of, service_in, unit_of

_LONGEST_LABEL = 250
_ID = "3f" * 32
_READERS: tuple[Callable[[str], object], ...] = (
    *(options.seconds, options.process_ids, options.ports, options.count, options.whole, options.duration_ns),
    *(options.linear_range, options.budget, options.labels, options.peer_prefix, options.who, options.room),
)
_SERVICES = Services()


def check_cgroup(data: bytes) -> None:
    """Of /proc/PID/cgroup: what a user's own systemd runs bears that user's name first; labels are printable and bounded."""
    text = data.decode(errors="backslashreplace")
    owner, unit = owner_of(text), unit_of(text)
    service = service_in(text, "comm", lambda _: {})
    if owner:
        assert not unit or unit.startswith(owner)
        assert service.name == "comm" or service.name.startswith(owner)
    else:
        assert "/user@" not in f"/{unit}" or "user@" in text
    for _, value in _SERVICES.labels_in("comm", text):
        assert len(value) <= _LONGEST_LABEL
        assert value.isprintable()


def cgroups() -> list[bytes]:
    """Those of a unit, a user's unit, containers of Docker and Kubernetes, and version 1."""
    return [
        b"0::/system.slice/nginx.service\n",
        b"0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service\n",
        f"0::/user.slice/user@1000.service/user.slice/libpod-{_ID}.scope/container\n".encode(),
        f"0::/system.slice/docker-{_ID}.scope\n".encode(),
        f"0::/kubepods.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-{_ID}.scope\n".encode(),
        b"4:memory:/system.slice/other.service\n1:name=systemd:/system.slice/my\\x2dapp.service\n",
    ]


def check_samples(data: bytes) -> None:
    """Of series in Prometheus' answer: numbers, or our own error."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(answer, list):
        return
    try:
        found = series_of(answer)
    except SsllatencyError:
        return
    for samples in found:
        times = sorted(time for time in samples.values if math.isfinite(time))
        for earlier, later in pairwise(times):
            value = samples.counted(earlier, later)
            assert value is None or isinstance(value, Distribution | float | int)


def samples() -> list[bytes]:
    """A counter, and a native histogram."""
    histogram = {"count": "3", "sum": "0.5", "buckets": [[0, "0.001953125", "0.002039", "2"], [3, "-1e-8", "1e-8", "1"]]}
    return [
        json.dumps([{"metric": {"service": "nginx"}, "values": [[1.0, "3"], [2.0, "5"]]}]).encode(),
        json.dumps([{"metric": {}, "histograms": [[1.0, histogram], [2.0, histogram]]}]).encode(),
    ]


def check_header(data: bytes) -> None:
    """Of headers of requests: an answer, whatever they say, and none by a name of somebody else's on a loopback address."""
    text = data.decode("latin-1")
    content_type, _ = chosen(text)
    assert content_type
    network_of(text)
    may_ask(text, "0.0.0.0")
    if may_ask(text, "127.0.0.1") and text:
        host = text.rpartition(":")[0] if text.rpartition(":")[2].isdecimal() and not text.endswith("]") else text
        assert host.strip("[]").lower() in _LOCAL or host.strip("[]").startswith(("127.", "::", "0"))


_LOCAL = {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}


def headers() -> list[bytes]:
    """Of Host and Accept, and addresses."""
    return [
        b"localhost:9743",
        b"[::1]:9743",
        b"127.0.0.1",
        b"web1.example:9743",
        b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2",
        b"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6",
        b"fe80::1%eth0",
        b"Basic " + base64.b64encode(b"ann:secret"),
    ]


def check_options(data: bytes) -> None:
    """Of options' values: one is read, or refused by an error of ours."""
    text = data.decode(errors="surrogateescape")
    for read in _READERS:
        with suppress(argparse.ArgumentTypeError, SsllatencyError):
            read(text)


def values() -> list[bytes]:
    """Of all kinds."""
    return [b"10s", b"1m30s", b"812,813", b"443,8443", b"250us", b"0:1000:200", b"2%", b"sni,port", b"24,56", b"4096"]


def check_frame(data: bytes) -> None:
    """Of what the process that traces tells the other: a reading which is told again as it was, or an error."""
    try:
        reading = Readings().reading(data)
    except (ValueError, OverflowError):
        return
    if all(math.isfinite(point.since_s) for point in reading.points) and math.isfinite(reading.at_s):
        again = Readings().reading(Frames().frame(reading))
        assert len(again.points) == len(reading.points)


def frames() -> list[bytes]:
    """A counter and a histogram."""
    distribution = Distribution(30, ExponentialHistogram((1, 2), 3, 0, 1))
    points = (Point("a", (("service", "x"),), 3, 1.0), Point("b", (), distribution, 1.0))
    return [Frames().frame(Reading("host", 60.0, points, (("a", (("service", "y"),)),)))]
