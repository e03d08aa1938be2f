# SPDX-License-Identifier: Apache-2.0
"""What must hold of what a host's processes and the network say: the paths of control groups, the files of processes and of
container runtimes, what a JVM recorded, what a Prometheus answers, the headers of requests, and what one of our processes tells
the other. The seeds are beside them, as they are short."""

from __future__ import annotations

import argparse
import base64
import json
import math
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import Distribution, Frames, Point, Reading, Readings
from ssllatency.export.serve.connections import network_of
from ssllatency.export.serve.host_names import may_ask
from ssllatency.export.serve.negotiation import chosen
from ssllatency.export.services import Services
from ssllatency.model.histogram import ExponentialHistogram, Grid, bucket_bounds
from ssllatency.model.snapshot import Snapshot
from ssllatency.prometheus.samples import series_of
from ssllatency.reports.documents import document
from ssllatency.reports.documents.fields import DocumentField
from ssllatency.reports.documents.flight_recorder import read_recording
from ssllatency.reports.text import flight_recorder as flight_recorder_text
from ssllatency.targets.containers.container import parse_cgroup
from ssllatency.targets.containers.images import image_of
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.containers.service import called_in, service_in, unit_of
from ssllatency.targets.hazards import hazards
from ssllatency.targets.maps import parse_maps, shown_path
from ssllatency.targets.processes import process_of
from ssllatency.targets.sockets.listening import blocks, whole_table
from ssllatency.targets.sockets.sock_diag import listen_overflows, sockets_of
from ssllatency.tracing.jfr.summary import summary
from tests.fixtures import flight_recording

_LONGEST_LABEL = 250
_ID = "3f" * 32
_OF_A_USER = re.compile(r"(?:user@[0-9]+\.service|user-[0-9]+\.slice)/comm")
_READERS: tuple[Callable[[str], object], ...] = (
    *(options.seconds, options.process_ids, options.ports, options.count, options.whole, options.duration_ns),
    *(options.linear_range, options.budget, options.labels, options.peer_prefix, options.who, options.room),
)
_SERVICES = Services()
_MOST_KINDS = 65  # of a JVM's handshakes or exceptions, the last of which are all others


def check_cgroup(data: bytes) -> None:
    """Of /proc/PID/cgroup: what a user runs bears that user's name first; labels are printable and bounded."""
    text = data.decode(errors="backslashreplace")
    containers, unit, called = parse_cgroup(text), unit_of(text), called_in(text, "comm")
    service = service_in(text, "comm", lambda _: {})
    assert called == "comm" or _OF_A_USER.fullmatch(called)
    if containers:
        assert service.name.startswith(containers[-1].owner)
    else:
        assert service.name == (unit or called)
    for _, value in _SERVICES.labels_in("comm", text):
        assert len(value) <= _LONGEST_LABEL
        assert value.isprintable()


def cgroups() -> list[bytes]:
    """Those of a unit, a user's unit, containers of Docker and Kubernetes, and version 1."""
    return [
        b"0::/system.slice/nginx.service\n",
        b"0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service\n",
        b"0::/user.slice/user-1000.slice/session-3.scope\n",
        f"0::/user.slice/user@1000.service/user.slice/libpod-{_ID}.scope/container\n".encode(),
        f"0::/system.slice/docker-{_ID}.scope\n".encode(),
        f"0::/kubepods.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-{_ID}.scope\n".encode(),
        b"4:memory:/system.slice/other.service\n1:name=systemd:/system.slice/my\\x2dapp.service\n",
    ]


def check_process(folder: Path) -> Callable[[bytes], None]:
    """Of the files of a process below a /proc that is made in the folder, which all have the same content: what is read is what
    may be shown or asked for, or an OSError."""
    process = folder / "17"
    (process / "net").mkdir(parents=True)
    (process / "task/17").mkdir(parents=True)
    (process / "fd").mkdir()
    (process / "fd/3").symlink_to("socket:[316533]")
    (process / "fdinfo").mkdir()
    (process / "ns").mkdir()
    (process / "ns/net").symlink_to("net:[1]")
    content = folder / "content"
    content.touch()
    for name in ("stat", "task/17/status", "net/tcp", "net/tcp6", "net/netstat", "fdinfo/3"):
        (process / name).symlink_to(content)

    def check(data: bytes) -> None:
        content.write_bytes(data)
        found = process_of(17, folder)
        assert found is None or found.comm.encode()
        hazards([17], folder)
        blocks([17], folder)
        for mapped in parse_maps(data):
            assert shown_path(mapped) in data
        with suppress(OSError):
            assert listen_overflows(process) >= 0
        with suppress(OSError):
            for listener in (whole_table(process / "net", 4) or {}).values():
                assert listener.address.isprintable()
        with suppress(OSError):
            assert all(one.port < 1 << 16 for one in sockets_of(iter([data])))

    return check


def processes() -> list[bytes]:
    """Of stat, status, maps, the tables of sockets, counters, and the kernel's answer about a socket that listens."""
    row = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 316533 1 0 100 0 0 10 0\n"
    statistics = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 12 13\n"
    told = struct.pack("=IHHII", 16 + 72 + 40, 20, 2, 0, 0) + bytes([2, 10, 0, 0]) + struct.pack(">H", 443)
    told = told.ljust(16 + 72, b"\1") + struct.pack("=HH", 40, 7).ljust(40, b"\2") + struct.pack("=IHHII", 16, 3, 2, 0, 0)
    return [
        b"17 (a (b) c) S 1 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5432 1 2 3\n",
        b"pos:\t0\nflags:\t02004002\n",
        b"Name:\tnginx\nSeccomp:\t2\nx86_Thread_features:\tshstk wrss\n",
        b"00401000-00402000 r-xp 00001000 fe:00 17 /usr/lib/a\\012b.so (deleted)\n7ffd-7ffe r-xp 00000000 00:00 0 [vdso]\n",
        ("  sl  local_address rem_address   st\n" + row + row.replace(" 0A ", " 01 ")).encode(),
        statistics.encode(),
        told,
    ]


def check_runtime(folder: Path) -> Callable[[bytes], None]:
    """Of a file in which a container runtime keeps what it knows, below a root that is made in the folder."""
    places = (
        f"var/lib/docker/containers/{_ID}/config.v2.json",
        f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{_ID}/config.json",
        f"run/containers/storage/overlay-containers/{_ID}/userdata/config.json",
        "var/lib/containers/storage/overlay-containers/containers.json",
    )
    roots = []
    for number, place in enumerate(places):
        roots.append((root := folder / str(number), root / place))
        (root / place).parent.mkdir(parents=True)
    cgroup = f"0::/system.slice/docker-{_ID}.scope\n"

    def check(data: bytes) -> None:
        for root, file in roots:
            file.write_bytes(data)
            assert isinstance(image_of(_ID, root), str)
            assert all(isinstance(name, str) for name in container_names([_ID], root).values())
            for _, value in Services(root=root).labels_in("comm", cgroup):
                assert len(value) <= _LONGEST_LABEL
                assert value.isprintable()
                assert value.encode()

    return check


def runtime_files() -> list[bytes]:
    """Docker's, the bundles of containerd and CRI-O, and Podman's."""
    images = {"io.kubernetes.cri.image-name": "nginx:1", "io.kubernetes.cri-o.ImageName": "nginx:2"}
    stored = {"id": _ID, "names": ["web"], "metadata": json.dumps({"image-name": "nginx:3"})}
    return [
        json.dumps(one).encode() for one in ({"Name": "/web", "Config": {"Image": "nginx"}}, {"annotations": images}, [stored])
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
    return [
        json.dumps([{"metric": {"service": "nginx"}, "values": [[1.0, "3"], [2.0, "5"]]}]).encode(),
        json.dumps([{"metric": {}, "histograms": [[1.0, histogram()], [2.0, histogram()]]}]).encode(),
    ]


def histogram(total_s: float = 0.5) -> dict[str, object]:
    """Of a call shorter than all buckets and two in one, as Prometheus writes it."""
    low, high = (repr(bound_ns / 1e9) for bound_ns in bucket_bounds(Grid.SECONDS.first_bucket + 40))
    return {"count": "3", "sum": str(total_s), "buckets": [[0, low, high, "2"], [3, "-1e-8", "1e-8", "1"]]}


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


def check_flight_recording(data: bytes) -> None:
    """Of what a JVM recorded: a bounded account of it, which is told to the process that reports it as it is, and in a report
    and a document that do nothing to a terminal; or a ValueError."""
    for timed in (False, True):
        try:
            found = summary(data, 17, "25.0.3", flight_recording.STARTED_NS, timed=timed)
        except ValueError:
            return
        assert len(found.negotiated) <= _MOST_KINDS
        assert len(found.thrown or ()) <= _MOST_KINDS
        assert read_recording(DocumentField(json.loads(json.dumps(asdict(found))))) == found
        snapshot = Snapshot("web1", "6.1.0", "jfr", "2030-01-31T12:00:00Z", 2.0, (), (), flight_recordings=(found,))
        assert document.from_json(document.to_json(snapshot)) == snapshot
        report = flight_recorder_text.render(snapshot)
        assert all(line.isascii() and line.isprintable() for line in report.split("\n"))


def flight_recordings() -> list[bytes]:
    """One of two chunks, and one with values of each kind."""
    return [flight_recording.recording() + flight_recording.chunk(), flight_recording.odd_recording()]
