# SPDX-License-Identifier: Apache-2.0
"""`ssllatency snoop` on a real nginx: every call once, with its bytes, and with --handshakes every handshake; drops counted
exactly; and nothing stays behind."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, h2load, server_calls
from tests.live.commands.snoop import Snoop
from tests.live.commands.test_command import children
from tests.live.commands.trace import PROGRAM, links_left, links_of
from tests.live.servers.nginx import Nginx, Settings
from tests.live.servers.queues import Late, felt_ns, late_server

pytestmark = pytest.mark.usefixtures("tracing")

ROW = re.compile(
    r"[\d:]{8}\.\d{6} +(\d+) +(\d+) (.{15}) (\S+) +(-?\d+|0x[0-9a-f]+) +(\d+ +)?(\d+\.\d) (success|retry|closed|failure).*"
)


def successes(snoop: Snoop) -> Counter[str]:
    return Counter(one["function"] for one in snoop.calls() if one["outcome"] == "success")


@pytest.mark.parametrize("key", ["rsa", "ecdsa"])
def test_every_call_is_a_line(certificates: Path, key: str) -> None:
    with Nginx(certificates) as server:
        with Snoop(server.master_pid, options=("--json",)) as snoop:
            exchanges = Client(server.port[key], TLS_1_2).connect_times(10, requests=3)
            server.wait_idle()
        workers = server.worker_pids()
    expected = server_calls(exchanges, key)
    assert snoop.status == 0
    assert {function: successes(snoop)[function] for function in expected} == expected
    assert {(one["pid"], one["tid"], one["comm"]) for one in snoop.calls()} == {(workers[0], workers[0], "nginx")}
    retried = [one for one in snoop.calls() if one["outcome"] == "retry"]
    assert {(one["returned"], one["reason"]) for one in retried} == {(-1, "WANT_READ")}
    assert f"{len(snoop.calls())} calls shown." in snoop.said
    assert "Lost" not in snoop.said


def test_the_bytes_are_those_that_went_over_the_wire(certificates: Path) -> None:
    options = ("--json", "--function", "SSL_read", "--function", "SSL_write")
    with Nginx(certificates, Settings(exact=(300, 3500))) as server, Snoop(server.master_pid, options=options) as snoop:
        client = Client(server.port["ecdsa"], TLS_1_3)
        exchanges = client.connect_times(5, requests=4, path="/300", request_size=512)
        exchanges += client.connect_times(3, requests=2, path="/3500", request_size=200)
        server.wait_idle()
    moved: Counter[str] = Counter()
    for one in snoop.calls():
        assert one.get("bytes") == (one["returned"] if one["outcome"] == "success" else None)
        moved[one["function"]] += one.get("bytes", 0)
    responses = sum(len(response) for exchange in exchanges for response in exchange.responses)
    assert moved == {"SSL_read": 20 * 512 + 6 * 200, "SSL_write": responses}


def test_the_columns_hold_what_the_json_does(certificates: Path) -> None:
    with Nginx(certificates) as server, Snoop(server.master_pid) as snoop:
        exchanges = Client(server.port["rsa"], TLS_1_3).connect_times(5)
        server.wait_idle()
    heading, *lines = snoop.output.splitlines()
    assert heading.split() == ["TIME", "PID", "TID", "COMM", "FUNC", "RET", "BYTES", "LAT(us)", "OUTCOME"]
    rows = [ROW.fullmatch(line) for line in lines]
    assert all(rows)
    assert {line.index(row[8]) for line, row in zip(lines, rows, strict=True) if row} == {heading.index("OUTCOME")}
    found = Counter(row[4] for row in rows if row and row[8] == "success")
    expected = server_calls(exchanges, "rsa")
    assert {function: found[function] for function in expected} == {**expected}


def test_only_what_is_asked_for_is_shown(certificates: Path) -> None:
    options = (
        "--json",
        "--function",
        "SSL_*shake",
        "--function",
        "rsa_ossl_private_*",
        "--outcome",
        "success",
        "--outcome",
        "failure",
    )
    with Nginx(certificates) as server, Snoop(server.master_pid, options=options) as snoop:
        Client(server.port["rsa"], TLS_1_3).connect_times(7)
        server.wait_idle()
    assert "Tracing 3 functions" in snoop.said
    assert Counter((one["function"], one["outcome"]) for one in snoop.calls()) == {
        ("SSL_do_handshake", "success"): 7,
        ("rsa_ossl_private_encrypt", "success"): 7,
    }


def dropped_of(snoop: Snoop, shown: Sequence[object], noun: str, made: int) -> int:
    """How many of so many were dropped: it is said in lines and at the end, and those and the ones that were shown are all."""
    dropped = snoop.number("records? dropped")
    assert snoop.status == 0
    assert len(shown) == snoop.number(f"{noun} shown")
    assert len(shown) + dropped == made
    assert sum(one.get("dropped", 0) for one in snoop.lines()) == dropped
    return dropped


def test_a_reader_that_is_late_costs_calls_that_are_counted(certificates: Path) -> None:
    """Nobody reads until all calls are made: the pipe fills, then the ring, then calls are dropped. Then all else is read."""
    requests = 2500
    options = ("--json", "--buffer", "16", "--function", "SSL_write", "--outcome", "success")
    with Nginx(certificates) as server:
        snoop = Snoop(server.master_pid, options=options, read=False)
        with snoop:
            Client(server.port["ecdsa"], TLS_1_3).connect(requests=requests)
            server.wait_idle()
            server.close()
            snoop.finish()
    assert dropped_of(snoop, snoop.calls(), "calls", requests) > 500
    assert "have ended" in snoop.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_reader_that_is_stuck_doesnt_keep_it_from_being_stopped(certificates: Path, number: signal.Signals) -> None:
    requests = 2500
    options = ("--json", "--function", "SSL_write", "--outcome", "success")
    with Nginx(certificates) as server, Snoop(server.master_pid, options=options, read=False) as snoop:
        Client(server.port["ecdsa"], TLS_1_3).connect(requests=requests)
        server.wait_idle()
        snoop.process.send_signal(number)
        assert snoop.process.wait(20) == 0
    assert len(snoop.calls()) == snoop.number("calls shown")
    assert len(snoop.calls()) + snoop.number("calls not printed") == requests
    assert "dropped" not in snoop.said


@pytest.mark.smoke
def test_it_ends_after_so_many_lines(certificates: Path) -> None:
    with Nginx(certificates) as server, Snoop(server.master_pid, options=("--count", "7")) as snoop:
        Client(server.port["ecdsa"], TLS_1_3).connect_times(5)
        snoop.finish()
    assert snoop.status == 0
    assert len(snoop.output.splitlines()) == 1 + 7
    assert "7 calls shown." in snoop.said


def test_head_ends_it_without_a_word(certificates: Path) -> None:
    with Nginx(certificates) as server:
        command = f"{PROGRAM} snoop -p {server.master_pid} | head -n 3"
        with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            assert process.stderr.readline().startswith("Tracing")
            try:
                links = set[int]().union(*map(links_of, children(process.pid)))
                Client(server.port["ecdsa"], TLS_1_3).connect_times(2)
            finally:
                output, errors = process.communicate(timeout=30)
    assert links
    assert output.count("\n") == 3
    assert [line for line in errors.splitlines() if "The probes cost " not in line] == []
    assert links_left(links) == set()


def test_nothing_stays_behind_even_when_killed(certificates: Path) -> None:
    with Nginx(certificates) as server:
        client = Client(server.port["ecdsa"], TLS_1_3)
        for number in (signal.SIGINT, signal.SIGKILL):
            with Snoop(server.master_pid) as snoop:
                links = links_of(snoop.process.pid)
                assert links_left(links) == links != set()
                client.connect_times(2)
                snoop.process.send_signal(number)
                snoop.finish()
            client.connect_times(2)
            assert links_left(links) == set()


def test_many_connections_on_many_workers(certificates: Path) -> None:
    settings = Settings(workers=4, reuseport=True, tickets=False)
    with Nginx(certificates, settings) as server:
        with Snoop(server.master_pid, options=("--json",)) as snoop:
            completed = h2load(server.port["ecdsa"], 2000, parallel=32)
            server.wait_idle()
        workers = set(server.worker_pids())
    found = successes(snoop)
    for function in ("SSL_do_handshake", "SSL_read", "SSL_write", "SSL_shutdown", "ossl_ecdsa_sign"):
        assert found[function] == completed
    assert {one["pid"] for one in snoop.calls()} == workers
    assert "dropped" not in snoop.said


def test_every_handshake_is_a_line(certificates: Path) -> None:
    with (
        Nginx(certificates) as server,
        Snoop(server.master_pid, options=("--handshakes", "--json", "--by", "port,sni")) as snoop,
        Snoop(server.master_pid, options=("--handshakes", "--outcome", "failure", "--outcome", "abandoned")) as bad_ones,
    ):
        Client(server.port["ecdsa"], TLS_1_3).connect_times(5)
        Client(server.port["rsa"], TLS_1_2).connect_times(4)
        for act in 3 * [bad.no_shared_cipher] + 2 * [bad.end_of_file]:
            act(server.port["rsa"])
        server.wait_idle()
        workers = server.worker_pids()
    shakes = snoop.handshakes()
    assert (snoop.status, bad_ones.status) == (0, 0)
    assert Counter((one["ending"], one["reason"]) for one in shakes) == {
        ("success", ""): 9,
        ("failure", "no shared cipher"): 3,
        ("abandoned", "connection reset or closed by the peer"): 2,
    }
    assert {one["pid"] for one in shakes} == {*workers}
    assert Counter(one["labels"]["port"] for one in shakes) == {str(server.port["ecdsa"]): 5, str(server.port["rsa"]): 9}
    for one in shakes:
        parts = one["parts_ns"]
        assert parts["client_wait"] == parts.get("queue_start", 0) + parts["wall"]
    heading, *rows = bad_ones.output.splitlines()
    at = heading.index("OUTCOME")
    assert Counter(row[at:].split(", ")[0].partition(";")[0] for row in rows) == {
        "failure no shared cipher": 3,
        "abandoned connection reset or closed by the peer": 2,
    }
    assert "14 handshakes shown." in snoop.said
    assert "5 handshakes shown." in bad_ones.said


def test_a_line_tells_the_queue_of_a_server_that_sleeps(certificates: Path) -> None:
    """Of a prompt server's handshakes none is as slow as the bound, but by the client's own clock."""
    times, late_s, bound_s = 8, 0.03, 0.025
    with (
        late_server(certificates, Late(sleep_s=late_s)) as (pid, port),
        late_server(certificates, Late()) as (prompt_pid, prompt_port),
        Snoop(pid, options=("--handshakes",)) as snoop,
        Snoop(pid, prompt_pid, options=("--handshakes", "--json", "--min", f"{bound_s}s")) as slow_ones,
    ):
        felt = [felt_ns(port) for _ in range(times)]
        prompt = [felt_ns(prompt_port) for _ in range(times)]
    heading, *rows = snoop.output.splitlines()
    assert heading.split()[3:7] == ["WAIT(ms)", "QUEUE", "PEER", "CALLS"]
    waits, queues, peers, calls = (
        [0.0 if row.split()[at] == "-" else float(row.split()[at]) for row in rows] for at in range(3, 7)
    )
    assert len(rows) == times
    assert sum("queue: asleep " in row for row in rows) > times / 2
    assert sum(queues) + sum(peers) + sum(calls) == pytest.approx(sum(waits), abs=0.002 * times)
    assert times * late_s * 1e3 <= sum(waits) <= sum(felt) / 1e6
    assert sum(queues) > sum(peers) + sum(calls)
    shown = Counter(one["pid"] for one in slow_ones.handshakes())
    least, most = (sum(waited_ns > share * bound_s * 1e9 for waited_ns in prompt) for share in (1.05, 0.95))
    assert shown[pid] == times
    assert least <= shown[prompt_pid] <= most
    assert all(one["parts_ns"]["client_wait"] >= bound_s * 1e9 for one in slow_ones.handshakes())


def test_handshakes_that_find_no_room_are_counted(certificates: Path) -> None:
    """Nobody reads until all are done. They are all handed over, also where a budget has to be kept."""
    connections = 500
    with Nginx(certificates, Settings(tickets=False)) as server:
        options = ("--handshakes", "--json", "--buffer", "4")
        snoop = Snoop(server.master_pid, options=options, read=False, exact=False)
        with snoop:
            assert h2load(server.port["ecdsa"], connections, parallel=4) == connections
            server.wait_idle()
            server.close()
            snoop.finish()
    assert dropped_of(snoop, snoop.handshakes(), "handshakes", connections) > 100


PYTHON_SERVER = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[1:])
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    plain, _ = listening.accept()
    with context.wrap_socket(plain, server_side=True) as connection:
        while size := connection.recv(100):
            connection.sendall(b"x" * int(size))
"""


def test_the_bytes_of_calls_that_give_them_back_through_a_pointer(certificates: Path) -> None:
    """Python reads and writes by SSL_read_ex and SSL_write_ex."""
    sizes = (1, 333, 20_000)
    pair = [str(certificates / f"rsa.{end}") for end in ("crt", "key")]
    with subprocess.Popen([sys.executable, "-c", PYTHON_SERVER, *pair], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        port = int(server.stdout.readline())
        with Snoop(server.pid, options=("--json", "--function", "SSL_*_ex", "--outcome", "success")) as snoop:
            echo(port, sizes)
            assert server.wait(20) == 0
            snoop.finish()
    assert snoop.status == 0
    asked = [len(str(size)) for size in sizes]
    assert [one["bytes"] for one in snoop.calls() if one["function"] == "SSL_read_ex"] == asked
    assert [one["bytes"] for one in snoop.calls() if one["function"] == "SSL_write_ex"] == list(sizes)


def echo(port: int, sizes: tuple[int, ...]) -> None:
    """Asks for so many bytes each time, and reads them."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, context.wrap_socket(plain) as connection:
        for size in sizes:
            connection.sendall(str(size).encode())
            left = size
            while left:
                left -= len(connection.recv(left))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "4194303"], "there is no process 4194303"),
        (["-p", "SERVER", "--function", "SSL_reed"], "no function that is traced here matches SSL_reed"),
    ],
)
def test_what_isnt_there_is_one_sentence(certificates: Path, words: list[str], sentence: str) -> None:
    with Nginx(certificates) as server:
        named = [str(server.master_pid) if word == "SERVER" else word for word in words]
        done = subprocess.run([PROGRAM, "snoop", *named], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
