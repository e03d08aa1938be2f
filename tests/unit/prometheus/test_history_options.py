# SPDX-License-Identifier: Apache-2.0
"""`report` and `diff --prometheus`: what is asked for, of whom, and what is said where there is no answer."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

import pytest
from tests.answering import answering

from ssllatency.cli.command_line import run
from ssllatency.cli.kept.history import moment
from ssllatency.prometheus.client import TOKEN

NOON = datetime(2030, 1, 31, 12).astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [("now", 0), ("1h", 3600), ("90", 90), ("11:00", 3600), ("11:59:30", 30), ("12:00", 0), ("13:00", 23 * 3600),
     ("2030-01-31T11:00:00", 3600)],
)  # fmt: skip
def test_moments(text: str, ago_s: float) -> None:
    assert moment(text, NOON) == NOON - ago_s


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "-1h", "2030-13-01", "9" * 30])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="none of"):
        moment(text, NOON)


class Server:
    """Answers each request alike, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.content = 200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, list[str]], str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                server.asked.append((self.path, parse_qs(body), self.headers.get("Authorization", "")))
                self.send_response(server.status)
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(server.content)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def url(self, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with answering(made.http):
        yield made


def report(*options: str) -> int:
    return run(["report", *options])


def test_the_range_and_the_service_are_asked_for(server: Server) -> None:
    window = ["--from", "2030-01-31T11:00:00Z", "--to", "2030-01-31T12:00:00Z"]
    assert report("--prometheus", server.url(), "--service", 'a"b\\', *window, "--match", 'instance="web1"') == 1
    path, parameters, _ = server.asked[0]
    assert path == "/api/v1/query_range"
    assert parameters["query"] == ['timestamp(ssllatency_build_info{instance="web1"})']
    assert float(parameters["end"][0]) - float(parameters["start"][0]) == 3600
    assert parameters["step"] == ["60.000"]
    queries = [parameters["query"][0] for _, parameters, _ in server.asked]
    assert 'ssllatency_targets{service="a\\"b\\\\",instance="web1"}' in queries


def test_who_asks(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("--prometheus", server.url("me:s%40fe@"), "--service", "nginx") == 1
    assert server.asked[-1][2] == "Basic bWU6c0BmZQ=="
    assert "s%40fe" not in capsys.readouterr().err
    monkeypatch.setenv(TOKEN, "abc")
    assert report("--prometheus", server.url(), "--service", "nginx") == 1
    assert server.asked[-1][2] == "Bearer abc"


@pytest.mark.parametrize(
    ("status", "content", "sentence"),
    [
        (200, b'{"data":{"result":[]}}', "has no metrics of `ssllatency export`"),
        (400, b'{"status":"error","error":"bad\\u001b[31m query"}', "refuses the query: bad [31m query."),
        (401, b"who?", "refuses the query: HTTP status 401."),
        (200, b"<html>", "doesn't answer as Prometheus does."),
        (200, b'{"data":{"result":[1]}}', "doesn't answer as Prometheus does."),
        (200, b"[" * 100_000, "doesn't answer as Prometheus does."),
    ],
)
def test_no_answer_is_a_sentence(
    server: Server, status: int, content: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status, server.content = status, content
    assert report("--prometheus", server.url(), "--service", "nginx") == 1
    assert sentence in capsys.readouterr().err


def test_nobody_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("--prometheus", "http://127.0.0.1:1", "--service", "nginx") == 1
    assert capsys.readouterr().err == "ssllatency: http://127.0.0.1:1 doesn't answer: Connection refused.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["report"],
        ["report", "--service", "nginx"],
        ["report", "a.jsonl", "--prometheus", "http://127.0.0.1:1", "--service", "nginx"],
        ["report", "--prometheus", "http://127.0.0.1:1"],
        ["report", "--prometheus", "ftp://127.0.0.1", "--service", "nginx"],
        ["report", "--prometheus", "http://127.0.0.1:1", "--service", "nginx", "--from", "now", "--to", "1h"],
        ["report", "--prometheus", "http://127.0.0.1:1", "--service", "nginx", "--step", "1ms"],
        ["diff", "a.jsonl"],
        ["diff", "--prometheus", "http://127.0.0.1:1", "--service", "nginx"],
        ["diff", "a.jsonl", "b.jsonl", "--against", "7d"],
    ],
)
def test_what_cannot_be_asked_is_misuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith("ssllatency: ")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_password_follows_nobody_elsewhere(server: Server, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    other = Server()
    with answering(other.http):
        server.status, server.headers = status, {"Location": f"{other.url()}/api/v1/query\x07"}
        assert report("--prometheus", server.url("me:secret@"), "--service", "nginx") == 1
    assert f"is elsewhere ({other.url()}/api/v1/query): name that URL instead." in capsys.readouterr().err
    assert not other.asked


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", b"HTTP/1.1 200" + b"A" * 99_999]
)
def test_what_is_no_http_is_a_sentence(answer: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = Thread(target=answer_once)
        thread.start()
        assert report("--prometheus", f"http://127.0.0.1:{listener.getsockname()[1]}", "--service", "nginx") == 1
        thread.join()
    said = capsys.readouterr().err
    assert "doesn't answer" in said
    assert "defect" not in said
