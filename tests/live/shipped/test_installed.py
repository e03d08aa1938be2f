# SPDX-License-Identifier: Apache-2.0
"""What is installed, by `make install` or by pip, runs without the checkout, traces, and goes away again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ssllatency import __version__
from ssllatency.cli.command_line import SUBCOMMANDS
from tests.foreign import needed, second_root
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands import installed
from tests.live.commands.trace import Trace, count, losses
from tests.live.servers.nginx import Nginx

LIBCRYPTO = next(Path("/usr/lib").glob("*/libcrypto.so.3"), Path("libcrypto.so.3"))
# In a file system that lies over the second root and goes with the namespace.
IN_SECOND_ROOT = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
cp -R "$3/." "$1/root"
exec chroot "$1/root" /usr/local/bin/ssllatency --version
"""


class InstalledTrace(Trace):
    """A trace by another program than the checkout's."""

    def __init__(self, program: Path, *pids: int, options: tuple[str, ...]) -> None:
        super().__init__(*pids, options=options)
        self._command[0] = str(program)


@pytest.fixture(scope="module", params=installed.WAYS)
def prefix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is installed."""
    return installed.install(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make install` puts there, for tests to copy."""
    return installed.install("make", tmp_path_factory.mktemp("made"))


def run(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False, timeout=60)


def test_it_runs_without_its_checkout(prefix: Path, tmp_path: Path) -> None:
    ssllatency = installed.alone(prefix / "bin" / "ssllatency", tmp_path)
    assert run(ssllatency, "--version").stdout == f"ssllatency {__version__}\n"
    doctor = run(ssllatency, "doctor")
    assert str(prefix) in next(line for line in doctor.stdout.splitlines() if "BPF object" in line)
    assert str(installed.TOP) not in doctor.stdout + doctor.stderr
    probes = run(ssllatency, "probes", "--no-cache", LIBCRYPTO)
    assert probes.returncode == 0, probes.stderr
    assert "rsa_ossl_private_encrypt" in probes.stdout
    for name in SUBCOMMANDS:
        assert run(ssllatency, name, "--help").stdout.startswith(f"usage: ssllatency {name} ")


def test_short_commands_manual_and_completion_are_there(prefix: Path) -> None:
    assert run(prefix / "bin" / "sslsnoop", "--help").stdout.startswith("usage: ssllatency snoop ")
    for name in ("man/man1/ssllatency-trace.1", "man/man1/sslsnoop.1", "doc/ssllatency/docs/reference/trace.md"):
        assert (prefix / "share" / name).stat().st_size > 0
    for name in ("bash-completion/completions/ssllatency", "zsh/site-functions/_ssllatency"):
        assert "trace" in (prefix / "share" / name).read_text()
    for script in (installed.TOP / "tools").glob("*.bt"):
        assert (prefix / "bin" / script.name).read_text() == script.read_text()


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("engine", ["libbpf", "bcc"])
def test_it_traces(prefix: Path, engine: str, certificates: Path, tmp_path: Path) -> None:
    program = installed.alone(prefix / "bin" / "ssllatency", tmp_path)
    with Nginx(certificates) as server, InstalledTrace(program, server.master_pid, options=("--engine", engine)) as trace:
        Client(server.port["rsa"], TLS_1_3).connect_times(10)
        server.wait_idle()
    assert trace.document["engine"] == engine
    assert [count(trace.document, function) for function in ("SSL_do_handshake", "rsa_ossl_private_encrypt")] == [10, 10]
    assert losses(trace.document) == {}


@pytest.mark.usefixtures("tracing")
def test_a_short_command_traces(prefix: Path, certificates: Path, tmp_path: Path) -> None:
    program = installed.alone(prefix / "bin" / "sslsnoop", tmp_path)
    words = ("--function", "SSL_do_handshake", "--outcome", "success", "--count", "5", "--json", "-d", "60")
    with Nginx(certificates) as server:
        command = [program, "-p", str(server.master_pid), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as snoop:
            assert snoop.stderr
            assert any(line.startswith("Tracing") for line in snoop.stderr)
            Client(server.port["ecdsa"], TLS_1_3).connect_times(5)
            output, _ = snoop.communicate(timeout=30)
    assert [json.loads(line)["function"] for line in output.splitlines()] == ["SSL_do_handshake"] * 5


def test_another_system_runs_it_or_says_what_it_lacks(made: Path, tmp_path: Path) -> None:
    root = needed(second_root()).resolve()
    shutil.copytree(made, tmp_path / "made" / "usr" / "local", symlinks=True)
    (tmp_path / "over").mkdir()
    command = ["unshare", "--mount", "sh", "-c", IN_SECOND_ROOT, "sh", tmp_path / "over", root, tmp_path / "made"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if (root / "usr" / "bin" / "python3").exists():
        assert (done.returncode, done.stdout) == (0, f"ssllatency {__version__}\n")
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "ssllatency: there is no Python here: install it (apt-get install python3), 3.11 or later.\n"


def test_a_python_that_lacks_a_part_is_one_sentence(made: Path, tmp_path: Path) -> None:
    prefix = shutil.copytree(made, tmp_path / "prefix", symlinks=True)
    removed = "raise ModuleNotFoundError(name='argparse')\n"
    (prefix / "lib" / "ssllatency" / "argparse.py").write_text(removed)
    done = run(prefix / "bin" / "ssllatency", "doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ssllatency: /usr/bin/python3 has no module argparse: ")
    assert done.stderr.count("\n") == 1


def test_uninstalling_leaves_what_others_put_there(made: Path, tmp_path: Path) -> None:
    prefix = shutil.copytree(made, tmp_path / "usr" / "local", symlinks=True)
    foreign = [prefix / "bin" / "another", prefix / "share" / "doc" / "ssllatency" / "notes"]
    for file in foreign:
        file.write_text("")
    installed.install("make", tmp_path)
    assert installed.make("uninstall", f"DESTDIR={tmp_path}", "PREFIX=/usr/local").returncode == 0
    assert sorted(path for path in prefix.rglob("*") if path.is_file()) == foreign
    assert installed.make("uninstall", f"DESTDIR={tmp_path}", "PREFIX=/usr/local").returncode == 0


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "lib" / "ssllatency" / "file"
    other.parent.mkdir(parents=True)
    other.write_text("theirs")
    for target in ("install", "uninstall"):
        done = installed.make(target, f"PREFIX={tmp_path}")
        assert done.returncode != 0
        assert "wasn't made by `make install`" in done.stderr
    assert other.read_text() == "theirs"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [other]
