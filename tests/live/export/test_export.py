# SPDX-License-Identifier: Apache-2.0
"""`ssllatency export` of a real nginx, scraped by a real Prometheus: counts, resets, staleness, and the two processes."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from ssllatency.export.metrics.points import Distribution, Point, Reading, labels
from ssllatency.export.serve.server import ServedMetrics, Server
from ssllatency.model.histogram import ExponentialHistogram, bucket_index
from tests.answering import answering
from tests.live.clients.counted import TLS_1_3, Client, s_client
from tests.live.commands.export import Export, descriptors, status
from tests.live.servers.nginx import Nginx, Settings
from tests.prometheus.programs import needed_program
from tests.prometheus.server import Server as Prometheus
from tests.prometheus.server import prometheus, scraping
from tests.waiting import wait_for

EACH = 20
SHAKES = 'ssllatency_handshake_duration_seconds{outcome="success",tls_protocol_version="1.3"}'
COUNT = f"sum(histogram_count({SHAKES}))"


def scraper(folder: Path, port: int) -> AbstractContextManager[Prometheus]:
    """A Prometheus that scrapes this port of loopback often, so that a count that is new is soon there."""
    return prometheus(folder, scraping(f"127.0.0.1:{port}", {"web1": "/metrics"}, "200ms"))


def reload(server: Nginx) -> None:
    """Has other workers take the place of those that there are, which end."""
    before = set(server.worker_pids())
    os.kill(server.master_pid, signal.SIGHUP)
    wait_for(lambda: server.worker_pids() and not before & set(server.worker_pids()), 20)


def fail(server: Nginx) -> None:
    """One handshake that ends with an error."""
    with socket.create_connection(("127.0.0.1", server.port["rsa"]), timeout=20) as plain:
        plain.sendall(b"\x16no TLS")
        while plain.recv(4096):
            pass


def counted(scraped: Prometheus, family: str, label: str) -> dict[tuple[str, str], float]:
    """A counter by its service's `comm` and another label, without the exposition's overflow."""
    series = scraped.query(f"sum by (comm, {label}) (ssllatency_{family}_total)")
    return {(one["metric"].get("comm", ""), one["metric"][label]): float(one["value"][1]) for one in series}


@pytest.mark.usefixtures("tracing")
@pytest.mark.smoke
def test_counts_through_prometheus_are_exact(certificates: Path, tmp_path: Path) -> None:
    with (
        Nginx(certificates) as server,
        # So many handshakes at once may seem to cost too much, on a busy machine even what they are counted by.
        Export(server.master_pid, options=("--linger", "1s", "--exact")) as export,
        scraper(tmp_path, export.port) as scraped,
    ):
        scraped.wait_for(lambda: scraped.value("up") == 1)
        client = Client(server.port["rsa"], TLS_1_3)
        client.connect_times(EACH)
        fail(server)
        scraped.wait_for(lambda: scraped.value(COUNT) == EACH)
        reload(server)
        fail(server)
        client.connect_times(EACH)
        scraped.wait_for(lambda: scraped.value(COUNT) == 2 * EACH)
        assert scraped.value(f"max(resets({SHAKES}[1m]))") == 0
        assert scraped.value('sum(ssllatency_losses_total{kind!="late_processes"})') == 0
        private = 'sum(histogram_count(ssllatency_handshake_phase_seconds{phase="private_key"}))'
        assert scraped.value(private) == 2 * EACH
        calls = 'sum(histogram_count(ssllatency_call_duration_seconds{function="SSL_do_handshake",outcome="success"}))'
        assert scraped.value(calls) == 2 * EACH
        assert {series["metric"]["comm"] for series in scraped.query(SHAKES)} == {"nginx"}
        assert counted(scraped, "handshake_ciphers", "tls_cipher") == {("nginx", "TLS_AES_256_GCM_SHA384"): 2 * EACH}
        assert counted(scraped, "private_key_operations", "key") == {("nginx", "RSA-2048"): 2 * EACH}
        assert counted(scraped, "handshake_errors", "error_type") == {("nginx", "wrong version number"): 2}
        assert scraped.value("max(resets(ssllatency_handshake_ciphers_total[1m]))") == 0
        checked = subprocess.run(
            [needed_program("promtool"), "check", "metrics"],
            input=export.metrics(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
        server.close()
        scraped.wait_for(lambda: scraped.query(SHAKES) == [])  # stale, as the service is no more
        assert export.is_running
        assert "ssllatency_build_info" in export.metrics()


@pytest.mark.usefixtures("tracing")
def test_refused_tickets_and_second_hellos_are_those_that_the_clients_count(certificates: Path) -> None:
    """The server before had other ticket keys. Python's client sends a share of X25519 alone."""
    settings = Settings(kinds=("ecdsa",), curve="P-384")
    with Nginx(certificates, settings) as earlier:
        client = Client(earlier.port["ecdsa"], TLS_1_3)
        tickets = [exchange.session for exchange in client.connect_times(3)]
    with Nginx(certificates, settings) as server, Export(server.master_pid) as export:
        client.turn_to(server.port["ecdsa"])
        offering = [client.connect(session=ticket) for ticket in tickets]
        offering.append(client.connect(session=offering[-1].session))
        retried = [*offering, client.connect()]
        for _ in range(2):
            s_client(server.port["ecdsa"], "-groups", "P-384")
        everything = len(retried) + 2
        wait_for(lambda: total(export, "duration_seconds_count", outcome="success") == everything, 20)
        assert [exchange.resumed for exchange in offering] == [False, False, False, True]
        assert total(export, "session_offers_total") == len(offering)
        assert total(export, "session_refusals_total", reason="ticket") == 3
        assert total(export, "session_refusals_total", reason="cache_miss") == 0
        assert total(export, "hello_retries_known_total") == everything
        assert total(export, "hello_retries_total") == len(retried)
        assert total(export, "sockets_total") == everything
        assert total(export, "connection_events_total", event="peer_left") == 0
        assert total(export, "largest_flight_bytes_total") > 100 * everything


@pytest.mark.usefixtures("tracing")
def test_a_restart_is_one_reset(certificates: Path, tmp_path: Path) -> None:
    with Nginx(certificates) as server:
        client, first = Client(server.port["ecdsa"], TLS_1_3), Export(server.master_pid)
        with scraper(tmp_path, first.port) as scraped:
            with first:
                client.connect_times(EACH)
                scraped.wait_for(lambda: scraped.value(COUNT) == EACH)
            with Export(server.master_pid, port=first.port):
                client.connect_times(3)
                scraped.wait_for(lambda: scraped.value(COUNT) == 3)
                assert scraped.value(f"max(resets({SHAKES}[1m]))") == 1


def test_a_quantile_is_that_of_the_durations(tmp_path: Path) -> None:
    """No tracing: known durations, through the protobuf exposition and the real server."""
    chance = random.Random(11)
    durations = sorted(round(chance.lognormvariate(14, 1)) for _ in range(20_000))
    times = Distribution(sum(durations), ExponentialHistogram.from_values(durations))
    points = (Point("ssllatency.handshake.duration", labels({"service": "x"}), times, time.time()),)
    server = Server(
        socket.create_server(("127.0.0.1", 0)), ServedMetrics(lambda: Reading("host", time.time(), points), lambda: True)
    )
    with answering(server), scraper(tmp_path, server.server_address[1]) as scraped:
        name = "ssllatency_handshake_duration_seconds"
        scraped.wait_for(lambda: scraped.value(f"histogram_count({name})") == len(durations))
        for quantile in (0.5, 0.9, 0.99, 0.999):
            found = scraped.value(f"histogram_quantile({quantile}, {name})")
            assert found
            exact = durations[round(quantile * len(durations)) - 1]
            assert abs(bucket_index(round(found * 1e9)) - bucket_index(exact)) <= 1
        assert scraped.value(f"histogram_sum({name})") == pytest.approx(sum(durations) / 1e9)


@pytest.mark.usefixtures("tracing")
def test_who_speaks_has_no_privilege_and_who_traces_speaks_to_nobody(certificates: Path) -> None:
    if os.geteuid():
        pytest.skip("only root has privileges to give up: run the tests as root")
    with Nginx(certificates) as server, Export(server.master_pid) as export:
        wait_for(lambda: "ssllatency_build_info" in export.metrics(), 20)
        speaker = status(export.speaker)
        assert {name: int(value, 16) for name, value in speaker.items() if name.startswith("Cap")} == dict.fromkeys(
            ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0
        )
        assert 0 not in {int(word) for name in ("Uid", "Gid") for word in speaker[name].split()}
        assert (speaker["NoNewPrivs"], speaker["Seccomp"], speaker["Groups"]) == ("1", "2", "")
        held = [name for name in descriptors(export.speaker) if not name.startswith("socket:")]
        assert not [name for name in held if "bpf" in name or "perf_event" in name or "btf" in name]
        assert set(held) <= {"/dev/null", *(name for name in held if name.startswith("pipe:"))}
        traced = descriptors(export.tracer)
        assert [name for name in traced if "bpf" in name]
        assert len([name for name in traced if name.startswith("socket:")]) == 1  # the pair's one end
        networks = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6", "udp", "udp6", "raw", "packet"))
        assert not [name for name in traced if name.startswith("socket:") and f" {name[8:-1]} " in networks]


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("whom", ["speaker", "tracer"])
def test_either_ends_with_the_other(whom: str, certificates: Path) -> None:
    with Nginx(certificates) as server:
        export = Export(server.master_pid)
        export.__enter__()
        speaker = export.speaker
        os.kill(export.speaker if whom == "speaker" else export.tracer, signal.SIGKILL)
        assert export.end() == (1 if whom == "speaker" else -signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{speaker}").exists(), 20)


@pytest.mark.usefixtures("tracing")
def test_what_costs_too_much_is_observed_in_windows_and_handshakes_are_counted_on(certificates: Path) -> None:
    """A server at full speed, at the budget that holds unless another is asked for."""
    with Nginx(certificates) as server:
        load = ["wrk", "-t1", "-c8", "-d60", f"https://127.0.0.1:{server.port['rsa']}/"]
        with subprocess.Popen(load, stdout=subprocess.DEVNULL) as wrk, ExitStack() as at_work:
            at_work.callback(wrk.terminate)
            time.sleep(1)  # its own handshakes are over
            with Export(server.master_pid) as export:
                Client(server.port["ecdsa"], TLS_1_3).connect_times(EACH)
                observed = 'ssllatency_observed_ratio{function="SSL_write"}'
                wait_for(lambda: 0 < values(export).get(observed, 1.0) < 1, 20)
                assert wrk.poll() is None
                found = values(export)
                assert found['ssllatency_observed_ratio{function="SSL_do_handshake"}'] == 1
                shakes = [
                    value for name, value in found.items() if name.startswith("ssllatency_handshake_duration_seconds_count")
                ]
                assert sum(shakes) == EACH
                assert not [
                    name for name in found if name.startswith("ssllatency_losses_total") and "late" not in name and found[name]
                ]


def total(export: Export, name: str, **labels: str) -> float | None:
    """The sum of the series of a metric of handshakes that have these labels; None where there is none."""
    start, written = f"ssllatency_handshake_{name}{{", [f'{label}="{value}"' for label, value in labels.items()]
    series = {words: value for words, value in values(export).items() if words.startswith(start)}
    found = [value for words, value in series.items() if all(one in words for one in written)]
    return sum(found) if found else None


def values(export: Export) -> dict[str, float]:
    """The samples of an exposition, by name and labels as they are written."""
    lines = (line for line in export.metrics().splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
