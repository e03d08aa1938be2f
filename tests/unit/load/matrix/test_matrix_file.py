# SPDX-License-Identifier: Apache-2.0
"""The file of a matrix: what it may say, and the sentence for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.matrices import SERVER, matrix

from ssllatency.load.figures import LoadError
from ssllatency.load.matrix import file as matrix_file
from ssllatency.load.matrix.plan import Factor, ServerKind

RUNNING = '[servers.live]\nkind = "running"\naddress = "[::1]:443"\nkey = "RSA-2048"\n'
OTHERS = """
repeats = 7
warm_up = 0
seed = 3
clients = 20
seconds = 2
[servers.web]
kind = "nginx"
workers = 2
main = ["ssl_engine offload;"]
[servers.plain]
kind = "openssl"
options = ["-no_ticket"]
[factors]
key = ["RSA-2048", "Ed25519"]
[[exclude]]
key = "Ed25519"
server = ["plain"]
"""


def test_what_a_file_says() -> None:
    found = matrix_file.parse(OTHERS)
    assert (found.repeats, found.warm_up, found.seed, found.clients, found.seconds) == (7, 0, 3, 20, 2)
    assert found.servers["web"].kind is ServerKind.NGINX
    assert found.servers["web"].main == ("ssl_engine offload;",)
    assert found.servers["plain"].options == ("-no_ticket",)
    assert found.factors[Factor.KEY] == ("RSA-2048", "Ed25519")
    assert found.exclude == ({Factor.KEY: ("Ed25519",), Factor.SERVER: ("plain",)},)


def test_what_is_not_said_does_not_vary() -> None:
    found = matrix()
    assert found.factors[Factor.SERVER] == ("web",)
    assert found.factors[Factor.VERSION] == ("TLSv1.3",)
    assert all(len(levels) == 1 for levels in found.factors.values())


def test_servers_without_pages_have_none() -> None:
    found = matrix(head='seconds = 1\n[servers.plain]\nkind = "openssl"\n')
    assert found.factors[Factor.PAGE] == ("none",)


def test_a_running_server() -> None:
    found = matrix(head=f"seconds = 1\n{RUNNING}").servers["live"]
    assert (found.address, found.key, found.pid, found.client_certificate) == ("[::1]:443", "RSA-2048", None, "none")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seconds = ", "it isn't TOML: Invalid value (at"),
        ("", "it names no server"),
        ("[servers.web]\n", "seconds is missing: how many a run of s_time takes"),
        ('seconds = 1\n[servers.web]\n[factors]\ntool = "h2load"', "connections is missing"),
        (f"second = 1\n{SERVER}", "second isn't known: did you mean seconds?"),
        (f"{SERVER}[factors]\nkeys = []", "factors.keys isn't known: did you mean key?"),
        (f"{SERVER}worker = 2", "servers.web.worker isn't known: did you mean workers?"),
        (f"{SERVER}options = []", "servers.web.options isn't known"),
        (f"{SERVER}workers = 0", "servers.web.workers must be a whole number from 1 to 1024"),
        (f"repeats = true\n{SERVER}", "repeats must be a whole number from 1 to 1000"),
        (f"{SERVER}main = 'x'", "servers.web.main must be a list of strings"),
        (f"{SERVER}main = [1]", "servers.web.main[0] must be one line of text"),
        (f'{SERVER}kind = "apache"', "servers.web.kind: apache isn't known"),
        ('seconds = 1\n[servers."../x"]', "servers.../x must be named with letters"),
        ("seconds = 1\nservers = 3", "servers must be a table"),
        (f'{SERVER}[factors]\nkey = "RSA-2049"', "factors.key: RSA-2049 isn't known: did you mean RSA-2048?"),
        (f"{SERVER}[factors]\nkey = []", "factors.key must have at least one level"),
        (f'{SERVER}[factors]\nkey = ["Ed25519", "Ed25519"]', "factors.key has Ed25519 more than once"),
        (f'{SERVER}[factors]\nserver = "wob"', "factors.server: wob isn't known: did you mean web?"),
        (f'{SERVER}[factors]\ncipher = "A; b"', "factors.cipher: A; b isn't one name of OpenSSL's"),
        (f'{SERVER}[factors]\ngroup = "X25519:P-256"', "factors.group: X25519:P-256 isn't one name of OpenSSL's"),
        (f'{SERVER}[factors]\npage = "/../etc/passwd"', "isn't a page of an nginx that is started for the matrix"),
        (f'{SERVER}[factors]\npage = "/16777217"', "isn't a page of an nginx"),
        (f'{SERVER}[factors]\npage = "index"', "isn't a path that begins with /"),
        (f"{SERVER}[exclude]\nkey = 'Ed25519'", "exclude must be a list of tables"),
        (f"{SERVER}[[exclude]]", "exclude[0] names no factor"),
        (f"{SERVER}[[exclude]]\nkey = 'x'", "exclude[0].key: x isn't known"),
        ('seconds = 1\n[servers.live]\nkind = "running"', "servers.live.address is missing"),
        (f"seconds = 1\n{RUNNING.replace(':443', '')}pid = 0", "servers.live.pid must be a whole number"),
        ("seconds = 1\n" + RUNNING.replace("443", "x"), "servers.live.address: [::1]:x isn't HOST:PORT"),
        (f"seconds = {'[' * 3000}", "its values are nested too deep"),
        (f"seconds = {'{a=' * 3000}", "its values are nested too deep"),
        (f"seconds = {'9' * 5000}", "it isn't TOML: Exceeds the limit"),
        (f"{SERVER}[factors]\npage = [{','.join(map(str, range(90_000)))}]", "factors.page has 90000 levels: at most 10000"),
        (SERVER + "[[exclude]]\nkey = 'Ed25519'\n" * 257, "exclude has 257 tables: at most 256"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(LoadError) as refused:
        matrix_file.parse(text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_too_many_cells() -> None:
    pages = ", ".join(f'"/{number}"' for number in range(1, 2002))
    with pytest.raises(LoadError, match="make 12006 cells: at most 10000"):
        matrix(f'page = [{pages}]\nkey = ["RSA-2048", "RSA-3072", "Ed25519"]\nresumption = ["new", "reuse"]')


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="can't be read: No such file"):
        matrix_file.read(str(tmp_path / "none.toml"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(LoadError, match="isn't text in UTF-8"):
        matrix_file.read(str(tmp_path / "binary"))
    (tmp_path / "long").write_bytes(b"#" * (1 << 21))
    with pytest.raises(LoadError, match="larger than 1 MiB"):
        matrix_file.read(str(tmp_path / "long"))
