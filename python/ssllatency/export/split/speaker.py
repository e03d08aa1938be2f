# SPDX-License-Identifier: Apache-2.0
"""The process that speaks to the network. It is forked before anything is traced, reads its files, takes its port, gives up
what it may, and then serves what the other process tells it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from ssllatency.data_class import dataclass
from ssllatency.engines.resources import collect_seldom, keep_one_heap
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import NoReading, Reading, Readings
from ssllatency.export.split.channel import READY, Broken, SpeakersEnd, TracersEnd
from ssllatency.export.split.confinement import confine
from ssllatency.forked import close_others

if TYPE_CHECKING:
    from ssllatency.export.push.settings import PushSettings
    from ssllatency.export.serve.server import Server

_FRESH_S = 1.0  # so old may a reading be that is handed out again
_ANSWER_S = 15.0
_END_S = 5.0


@dataclass(frozen=True)
class Address:
    """An address to listen at: a host, "" for all, and a port."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """The address as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host or "*"
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class NetworkSettings:
    """The ways to the network: by scrape at `listen`, as the file `web_config` asks for, and to a receiver; as `user`."""

    listen: Address | None
    web_config: str
    push: PushSettings | None
    user: tuple[int, int]
    is_tls: bool = False


class NetworkProcess:
    """The process, seen from the one that traces."""

    def __init__(self, pid: int, channel: TracersEnd) -> None:
        self.pid, self.channel = pid, channel

    def close(self) -> None:
        """Ends it; may be called twice."""
        self.channel.close()
        if not self.pid:
            return
        pid, self.pid = self.pid, 0
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def start(speech: NetworkSettings) -> NetworkProcess:
    """Forks it, and waits until it listens and has given up its privileges. SsllatencyError says why it couldn't."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_speaker(speech, SpeakersEnd(theirs), parent)
    theirs.close()
    speaker = NetworkProcess(pid, TracersEnd(ours))
    try:
        status, _, words = speaker.channel.first_line().partition(" ")
    except Broken:
        status, words = "1", "The process that was to speak to the network has ended at once."
    if status != "0":
        speaker.close()
        raise SsllatencyError(words, int(status) if status.isdecimal() else 1)
    return speaker


def _be_speaker(speech: NetworkSettings, channel: SpeakersEnd, parent: int) -> NoReturn:
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the other process ends both
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        _speak(speech, channel, parent)
        status = 0
    except SsllatencyError as error:
        with suppress(OSError):
            channel.say(f"{error.status} {error}")
    except BaseException as error:
        with suppress(OSError):
            channel.say(f"1 The process that speaks to the network failed ({type(error).__name__}: {error}).")
    finally:
        os._exit(status)


def _speak(speech: NetworkSettings, channel: SpeakersEnd, parent: int) -> None:
    keep_one_heap()  # a scrape's megabytes in a thread for each connection
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    source = TracerReadings(channel)
    serve, keep = _server(speech, source), {0, 1, 2, channel.fileno()}
    if serve:
        keep.add(serve.fileno())
    push = _pusher(speech, source)
    close_others(keep)
    try:
        confine(speech.user, parent)
    except OSError as error:
        raise SsllatencyError(
            f"The process that speaks to the network can't give up its privileges: {error.strerror}."
        ) from None
    collect_seldom()
    channel.say("0")
    for work in (*([serve.serve_forever] if serve else []), *([push] if push else [])):
        threading.Thread(target=work, daemon=True).start()
    source.listen()


def _server(speech: NetworkSettings, source: TracerReadings) -> Server | None:
    if speech.listen is None:
        return None
    from ssllatency.export.serve.passwords import Passwords
    from ssllatency.export.serve.server import ServedMetrics, Server
    from ssllatency.export.serve.web_config import WebConfig, read

    config = read(speech.web_config) if speech.web_config else WebConfig()
    passwords = Passwords(config.users) if config.users else None
    site = ServedMetrics(source.read_more, lambda: source.ready, passwords, config.headers)
    return Server(_listener(speech.listen), site, config.tls)


def _pusher(speech: NetworkSettings, source: TracerReadings) -> Callable[[], None] | None:
    if speech.push is None:
        return None
    try:
        from ssllatency.export.push.delivery import Delivery
        from ssllatency.export.push.pusher import Pusher

        delivery = Delivery(speech.push)
    except ModuleNotFoundError:
        raise SsllatencyError("--otlp needs the package opentelemetry-proto: pip install opentelemetry-proto.") from None
    pusher = Pusher(speech.push, delivery, source.read)
    source.more = pusher.counted.added_to
    return pusher.run


def _listener(address: Address) -> socket.socket:
    try:
        family = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(family[4])
        listener.listen(128)
    except OSError as error:
        raise SsllatencyError(f"--listen {address.shown}: {error.strerror}.") from None
    return listener


class TracerReadings:
    """Has readings made by the other process, at most one in so long, and hands them out."""

    def __init__(self, channel: SpeakersEnd) -> None:
        self._channel = channel
        self._changed = threading.Condition()
        self._readings = Readings()
        self._last: Reading | None = None
        self._came_s = float("-inf")
        self._asked = False
        self.ready = False
        self.more: Callable[[Reading], Reading] = lambda reading: reading
        self._with_more: tuple[Reading, Reading] | None = None

    def listen(self) -> None:
        """Takes what the other process says, until it ends."""
        for line in self._channel.lines():
            with self._changed:
                if line == READY:
                    self.ready = True
                else:
                    self._last, self._came_s, self._asked = self._readings.reading(line), time.monotonic(), False
                self._changed.notify_all()

    def read_more(self) -> Reading:
        """The latest reading with what this process counts itself; the same object as long as the reading is."""
        reading, kept = self.read(), self._with_more
        if kept is None or kept[0] is not reading:
            kept = self._with_more = reading, self.more(reading)
        return kept[1]

    def read(self) -> Reading:
        """The counts by now. NoReading where nothing is traced yet, or no answer comes."""
        with self._changed:
            if not self.ready:
                raise NoReading("Nothing is traced yet.")
            wanted_s = time.monotonic() - _FRESH_S
            if self._came_s < wanted_s and not self._asked:
                self._asked = True
                self._channel.ask()
            if not self._changed.wait_for(lambda: self._came_s >= wanted_s, _ANSWER_S):
                raise NoReading("The process that traces gave no answer.")
            assert self._last
            return self._last
