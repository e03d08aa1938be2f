# SPDX-License-Identifier: Apache-2.0
"""The example server with asynchronous TLS, the engine or provider that it offloads to, and a load that counts.

Each is built from the checkout, listens, if at all, on the loopback address only, and ends with its block. The server counts
its own calls into OpenSSL, and what it offloads to its operations, so that a trace has something true to be held against.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests import foreign, machine
from tests.live.clients.counted import h2load, s_time
from tests.live.servers.nginx import Certificate, ServerError, make_certificate

TOP = Path(__file__).resolve().parents[3]
BUILT = TOP / "build" / "examples"
PATIENCE_S = 10.0

Counts = dict[str, Any]
Libraries = tuple[Path, ...]


@functools.cache
def build(example: str, libraries: Libraries = ()) -> Path:
    """Build one of the examples, "async-server", "offload-engine", "offload-provider" or "async-gain", and return the folder:
    BUILT, or for OpenSSL 4's `libraries` one in there. Headers of OpenSSL 3 serve for both but for the engines."""
    folder, options = BUILT, []
    if libraries:
        folder = BUILT / "openssl-4"
        names = " ".join(f"-L{file.parent} -l:{file.name}" for file in libraries)
        # They need a C library that this machine may not have.
        options = ["OPENSSL_CFLAGS=-DOPENSSL_NO_ENGINE", f"OPENSSL_LIBS=-Wl,--allow-shlib-undefined {names}"]
    run("make", "-s", "-C", str(TOP / "examples" / example), f"OUT={folder}", *options)
    return folder


@dataclass(frozen=True)
class Engine:
    """An OpenSSL engine: its id or file, control commands as NAME:VALUE, whether it loads the key itself, and a library that is
    to be preloaded for it."""

    name: str
    controls: tuple[str, ...] = ()
    loads_key: bool = False
    preload: Path | None = None


def offload(*, threads: int = 16, delay_us: int = 1000, loads_key: bool = False) -> Engine:
    """The engine of examples/offload-engine: so many operations at a time, each taking that much longer than its work."""
    build("offload-engine")
    return Engine(str(BUILT / "offload.so"), (f"THREADS:{threads}", f"DELAY_US:{delay_us}"), loads_key)


@dataclass(frozen=True)
class Provider:
    """The provider of examples/offload-provider: so many operations at a time, each taking that much longer than its work. With
    `fail_every` one in so many fails."""

    threads: int = 16
    delay_us: int = 1000
    fail_every: int = 0

    @property
    def environment(self) -> dict[str, str]:
        values = {"THREADS": self.threads, "DELAY_US": self.delay_us, "FAIL_EVERY": self.fail_every}
        return {f"OFFLOAD_{name}": str(value) for name, value in values.items()}


def offloading(how: str, *, threads: int = 16, delay_us: int = 1000, **settings: Any) -> AsyncSettings:
    """Settings with the example's "engine", or its "provider"."""
    if how == "engine":
        return AsyncSettings(engine=offload(threads=threads, delay_us=delay_us), **settings)
    return AsyncSettings(provider=Provider(threads, delay_us), **settings)


def qatengine(root: Path) -> Engine:
    """Intel's engine as the root has it, which works wherever its libcrypto_mb does; elsewhere it leaves every operation to
    OpenSSL (`lanes` says which)."""
    return Engine("qatengine", preload=BUILT / "any_maker.so" if lanes(root) == "library" else None)


@functools.cache
def lanes(root: Path) -> str:
    """What qatengine in that root can do on this CPU: "engine", "library" or "none", as examples/async-gain/lanes.c says it."""
    file = next(root.glob("usr/lib/*/engines-3/qatengine.so"), None)
    if file is None:
        pytest.skip(f"there is no qatengine in {root}: run tools/for-tests/second-root")
    build("async-gain")
    with tempfile.TemporaryDirectory(prefix="ssllatency-lanes-", dir=root / "tmp") as folder:
        program = shutil.copy(BUILT / "lanes", folder)
        inside = [f"/{Path(path).relative_to(root)}" for path in (program, file)]
        asked = subprocess.run(["chroot", root, *inside], capture_output=True, text=True, timeout=60, check=False)
    if asked.returncode:
        raise ServerError(f"lanes ended with status {asked.returncode}: {asked.stderr.strip()}")
    return asked.stdout.strip()


@dataclass(frozen=True)
class AsyncSettings:
    """How the server is set up. `kind` is that of its certificate, `version` "1.2", "1.3" or "" for both, `jobs` the most in
    flight (0: any number). `lazy` shakes hands within the first SSL_read. `poll_ms`: how often it looks whether jobs are done,
    0 when their descriptors say so. `impatient`: it frees the SSL of a client that goes while its job is paused. Every
    handshake is a full one unless `resume`. `environment` comes on top of ours."""

    kind: str = "rsa"
    asynchronous: bool = True
    engine: Engine | None = None
    version: str = ""
    groups: str = ""
    resume: bool = False
    requests: int = 0
    threads: int = 1
    jobs: int = 0
    lazy: bool = False
    poll_ms: int = 0
    impatient: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    provider: Provider | None = None


def on_release(release: str) -> dict[str, Any]:
    """What AsyncServer is given besides: for this machine's OpenSSL ("host") nothing, for Debian 13's ("3.5") its root, for
    OpenSSL 4 ("4") its libraries as well, whose C library is Debian 13's."""
    if release == "host":
        return {}
    root = foreign.needed(foreign.second_root()).resolve()
    if release == "3.5":
        return {"root": root}
    machine.needs_architecture("x86_64", "for which OpenSSL 4 was fetched")
    names = ("libssl-4-x86-64", "libcrypto-4-x86-64")
    return {"root": root, "libraries": tuple(foreign.needed(foreign.find(name)) for name in names)}


@dataclass
class AsyncServer:
    """The running server, from `with` to the end of the block: `port`, `pid`, and `final`, its counts, once it has ended.

    With `root`, another root file system, it runs in there, on the OpenSSL in there, or on the `libraries` of an OpenSSL 4;
    `program` is another build of it. Raises ServerError when it doesn't start, or didn't end with status 0 by itself when told
    to.
    """

    certificates: Path
    settings: AsyncSettings = field(default_factory=AsyncSettings)
    root: Path | None = None
    program: Path | None = None
    libraries: Libraries = ()

    def __enter__(self) -> Self:
        if self.program is None:
            self.program = build("async-server", self.libraries) / "async-server"
        self.final: Counts = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self.directory = Path(tempfile.mkdtemp(prefix="ssllatency-async-", dir=self.root / "tmp" if self.root else None))
        try:
            self._start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None and not self._killed:
                self.stop()
        finally:
            self.kill()

    @property
    def pid(self) -> int:
        """The process to trace."""
        assert self._process is not None
        return self._process.pid

    def status(self) -> int | None:
        """None while it runs, else its exit status, negative for the signal that ended it."""
        assert self._process is not None
        return self._process.poll()

    def counts(self) -> Counts:
        """What it has counted so far, as it prints it: see examples/async-server/README.md."""
        os.kill(self.pid, signal.SIGUSR1)
        return self._counts()

    def wait_idle(self, timeout_s: float = PATIENCE_S) -> Counts:
        """Wait until no connection is open, and return the counts. TimeoutError when one stays open."""
        deadline = time.monotonic() + timeout_s
        while (counts := self.counts())["open"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the server still has {counts['open']} connections open")
            time.sleep(0.02)
        return counts

    def stop(self) -> Counts:
        """Have it end in good order, and return its last counts. Does nothing the second time."""
        if not self.final:
            if self.status() is None:
                os.kill(self.pid, signal.SIGTERM)
            self.final = self._counts()
            assert self._process is not None
            if self._process.wait(PATIENCE_S) != 0:
                raise ServerError(f"async-server ended with status {self._process.returncode}: {self._log()}")
        return self.final

    def kill(self) -> None:
        """End it at once, if it still runs, and remove its directory."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
        self._killed = True
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        pair = make_certificate(self.settings.kind, self.certificates)
        prefix = ("chroot", str(self.root)) if self.root else ()
        if self.settings.engine and self.settings.engine.preload:
            prefix = (*prefix, "env", f"LD_PRELOAD={self._inside(self.settings.engine.preload)}")
        if self.libraries:
            folders = {str(Path(self._inside(file)).parent) for file in self.libraries}
            prefix = (*prefix, "env", f"LD_LIBRARY_PATH={':'.join(folders)}")
        assert self.program is not None
        command = [*prefix, self._inside(self.program), *self._words(pair)]
        offloading = self.settings.provider.environment if self.settings.provider else {}
        environment = {**os.environ, **offloading, **dict(self.settings.environment)}
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
            )
        words = self._line().split()
        if words[:1] != ["port"]:
            raise ServerError(f"async-server did not start: {self._log()}")
        self.port = int(words[1])

    def _words(self, pair: Certificate) -> list[str]:
        """The command line."""
        settings = self.settings
        words = ["--cert", self._inside(pair.certificate), "--key", self._inside(pair.key)]
        flags = {
            "async": settings.asynchronous,
            "lazy": settings.lazy,
            "impatient": settings.impatient,
            "resume": settings.resume,
            f"tls{settings.version}": settings.version,
        }
        words += [f"--{name}" for name, wanted in flags.items() if wanted]
        values = {
            "groups": settings.groups,
            "requests": settings.requests,
            "jobs": settings.jobs,
            "threads": settings.threads,
            "poll-ms": settings.poll_ms,
        }
        words += [word for name, value in values.items() if value for word in (f"--{name}", str(value))]
        if engine := settings.engine:
            words += ["--engine", self._inside(Path(engine.name)) if "/" in engine.name else engine.name]
            words += [word for control in engine.controls for word in ("--engine-ctrl", control)]
            words += ["--engine-key"] if engine.loads_key else []
        if settings.provider:
            words += ["--provider", self._inside(build("offload-provider", self.libraries) / "offloadprovider.so")]
        return words

    def _inside(self, path: Path) -> str:
        """The path as the server sees it; in another root the path of a copy."""
        if self.root is None:
            return str(path)
        copy = self.directory / path.name
        shutil.copy(path, copy)
        return f"/{copy.relative_to(self.root)}"

    def _counts(self) -> Counts:
        line = self._line()
        if not line:
            raise ServerError(f"async-server has ended, with status {self._ended()}: {self._log()}")
        counts: Counts = json.loads(line)
        return counts

    def _ended(self) -> int | None:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)
        return self._process.returncode

    def _line(self) -> str:
        """The next line that it prints, "" if it has ended. It prints little, and only when asked."""
        assert self._process is not None
        assert self._process.stdout is not None
        return line_of(self._process.stdout.fileno(), "async-server")

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace").strip()[:600]


def load(server: AsyncServer, tool: str = "h2load", *, connections: int = 500, parallel: int = 50, seconds: int = 2) -> int:
    """Drive the server, a new connection for each request: the connections that completed, by the tool's own count.

    `tool` is "h2load", which makes `connections`, or "s_time", which makes one after the other for `seconds`.
    """
    if tool == "h2load":
        return h2load(server.port, connections, parallel=parallel)
    version = server.settings.version.replace(".", "_")
    return s_time(server.port, seconds, *([f"-tls{version}"] if version else []))


class SteadyLoad:
    """h2load against the server, again and again, from `with` to the end of the block; `completed` connections, exactly, then.

    Leaving the block waits for the batch that is under way, and raises ClientError if a connection of any batch failed.
    """

    def __init__(self, server: AsyncServer, *, parallel: int = 50, batch: int = 500) -> None:
        self._server, self._parallel, self._batch = server, parallel, batch
        self._over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._drive, daemon=True)
        self.completed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _drive(self) -> None:
        try:
            while not self._over.is_set():
                self.completed += load(self._server, connections=self._batch, parallel=self._parallel)
        except Exception as error:  # whatever it was, it belongs to the thread that leaves the block
            self._error = error


def line_of(descriptor: int, name: str, timeout_s: float = PATIENCE_S) -> str:
    """The next line, without its end, of a program that prints nothing more before it is asked; "" at the end of its output."""
    text = b""
    deadline = time.monotonic() + timeout_s
    while not text.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"{name} said nothing for {timeout_s:g} s")
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        text += piece
    return text.decode().strip()


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"{command[0]} failed: {done.stderr.strip()[-600:]}")
