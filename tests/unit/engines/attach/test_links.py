# SPDX-License-Identifier: Apache-2.0
"""Who gets links of whose own and by which method, and what stays attached where the kernel refuses a probe."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, call

import pytest

from ssllatency.engines.attach import links
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.images import may_be_one_file
from ssllatency.engines.attach.links import Linker
from ssllatency.engines.attach.probing import STANDARD, Probing, close_together
from ssllatency.engines.attach.sites import ImageSites
from ssllatency.engines.base import AttachError, Request, TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.rules import Rules
from ssllatency.errors import SsllatencyError
from ssllatency.probes.plan import FilePlan, OperationPlan
from ssllatency.stopping import STOP

SITES = [(offset, offset) for offset in range(0x100, 0x105)]
SHARED = ("targets", "notices")  # the maps that objects of a run have in common


class Link:
    def __init__(self, pid: int) -> None:
        self.pid, self.closed = pid, False

    def close(self) -> None:
        self.closed = True


class Refusing:
    """Stands for a loaded object and the kernel: the third site of process 2 is refused."""

    def __init__(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number, self.links = number, list[Link]()
        monkeypatch.setattr("ssllatency.engines.attach.links.perf.attach", self._attach)

    def program_fd(self, _name: str) -> int:
        return 7

    def _attach(self, program: int, _path: str, offset: int, _cookie: int, *, pid: int, at_return: bool) -> Link:
        assert (program, at_return) == (7, False)
        if pid == 2 and offset == SITES[2][0]:
            raise OSError(self.number, os.strerror(self.number))
        self.links.append(Link(pid))
        return self.links[-1]


def linker(loaded: Any) -> Linker:
    return Linker(loaded, Method.PERF, each_process=True)


def image(*pids: int, build_id: str = "") -> TracedImage:
    return TracedImage(FilePlan("/lib/libssl.so.3", build_id, "", "libssl", (), ()), "/lib/libssl.so.3", pids)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, 524])
def test_nothing_stays_attached_where_a_site_is_refused(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Refusing(number, monkeypatch)
    with pytest.raises(AttachError):
        linker(loaded).attach(image(1, 2, 3), "at_exit", SITES)
    assert [link.pid for link in loaded.links] == [1] * 5 + [2] * 2
    assert all(link.closed for link in loaded.links)


def test_a_program_that_is_loaded_for_a_link_and_refused_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Refusing(0, monkeypatch)
    refused = MagicMock(side_effect=[7, SsllatencyError("the kernel didn't load it.")])
    monkeypatch.setattr(loaded, "program_fd", refused)
    with pytest.raises(AttachError, match=r"the kernel didn't load it\."):
        linker(loaded).attach(image(1, 2), "at_return", SITES)
    assert len(loaded.links) == 5
    assert all(link.closed for link in loaded.links)


def test_of_a_process_that_ends_meanwhile_nothing_stays_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Refusing(errno.ESRCH, monkeypatch)
    links = linker(loaded).attach(image(1, 2, 3), "at_exit", SITES)
    assert links == [link for link in loaded.links if link.pid != 2]
    assert {link.pid: link.closed for link in loaded.links} == {1: False, 2: True, 3: False}


def test_the_links_of_a_process_that_has_ended_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Refusing(0, monkeypatch)
    made = linker(loaded)
    made.attach(image(1, 3), "at_exit", SITES)
    made.attach(image(3), "at_entry", SITES[:1])
    assert made.take_from([3, 4]) == [link for link in loaded.links if link.pid == 3]
    assert made.take_from([3]) == []
    assert not any(link.closed for link in loaded.links)


class Waiting:
    """A link that closes once all of them are being closed."""

    def __init__(self, together: threading.Barrier) -> None:
        self._together = together

    def close(self) -> None:
        self._together.wait(10)


def test_all_links_of_a_run_share_what_the_kernel_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries and exits, of all tiers: by then nothing counts."""
    monkeypatch.setattr("ssllatency.engines.attach.probing.check_code", lambda *_: None)
    together = threading.Barrier(4)
    monkeypatch.setattr(kernel, "create_link", lambda *_, **__: Waiting(together))
    probings = [Probing(Linker(MagicMock(), Method.MULTI, each_process=False), STANDARD) for _ in range(2)]
    for probing in probings:
        probing.add([ImageSites(image(1), SITES, SITES, [], [], [])], {})
    before = threading.active_count()
    close_together(probings)
    assert not together.broken
    assert not any(probing.take_all() for probing in probings)
    assert threading.active_count() == before


@pytest.mark.parametrize("method", [Method.PERF, Method.MULTI])
def test_perf_events_of_a_process_that_has_ended_stay_to_the_end(monkeypatch: pytest.MonkeyPatch, method: Method) -> None:
    """The kernel takes long over each."""
    loaded = Refusing(0, monkeypatch)
    monkeypatch.setattr(kernel, "create_link", lambda *_, pid, **__: loaded._attach(7, "", 0, 0, pid=pid, at_return=False))
    probing = Probing(Linker(cast("Any", loaded), method, each_process=True), STANDARD)
    monkeypatch.setattr("ssllatency.engines.attach.probing.check_code", lambda *_: None)
    probing.add([ImageSites(image(1, 3), SITES, SITES, [], [], [])], {})
    probing.release([3])
    if method is Method.PERF:
        probing._entry_links.clear()
        probing.exit_links.clear()
        assert not any(link.closed for link in loaded.links)
        return
    close_together([probing])
    closed = [link.pid for link in loaded.links if link.closed]
    assert sorted(closed) == [1, 1, 3, 3]


@pytest.fixture
def few_files() -> Iterator[int]:
    """The hard bound on open files; the soft one is lower."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1] - 1), before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_perf_events_may_take_all_files_there_may_be(few_files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    linker(Refusing(0, monkeypatch)).attach(image(1), "at_exit", SITES)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)


ONE, TWO, MAYBE_ONE = (image(1),), (image(1, 2),), (image(1, build_id="a"), image(2, build_id="a"))


def attached(monkeypatch: pytest.MonkeyPatch, newest: Method, whole: bool, request: Request) -> Attachment:
    """How a kernel of that kind is to attach the request's probes."""
    monkeypatch.setattr(kernel, "best_method", lambda: newest)
    monkeypatch.setattr(kernel, "lacks", lambda method: list(Method).index(method) > list(Method).index(newest))
    monkeypatch.setattr(kernel, "filters_whole_processes", lambda: whole)
    loaded: Any = SimpleNamespace(sessions=True)
    return Attachment(request, loaded)


@pytest.mark.parametrize(
    ("newest", "whole", "request_", "method", "each"),
    [
        # A link's pid means the whole process.
        (Method.MULTI, True, Request(ONE, ()), Method.MULTI, True),
        (Method.MULTI, True, Request(TWO, (), links="process"), Method.MULTI, True),
        (Method.SESSION, True, Request(MAYBE_ONE, ()), Method.SESSION, True),
        # It means the process's first thread only.
        (Method.MULTI, False, Request(ONE, ()), Method.MULTI, False),
        (Method.MULTI, False, Request(TWO, (), links="shared"), Method.MULTI, False),
        (Method.MULTI, False, Request(TWO, (), links="process"), Method.PERF, True),
        (Method.MULTI, False, Request(MAYBE_ONE, ()), Method.PERF, True),
        (Method.MULTI, False, Request(MAYBE_ONE, (), links="shared"), Method.PERF, True),
        (Method.MULTI, False, Request(ONE, (), method="multi"), Method.MULTI, False),
        (Method.MULTI, False, Request(ONE, (), method="perf"), Method.PERF, True),
        # It has no such links.
        (Method.PERF, False, Request(ONE, ()), Method.PERF, True),
        (Method.PERF, False, Request(TWO, ()), Method.PERF, False),
    ],
)
def test_no_thread_of_a_process_is_lost_to_its_links(
    monkeypatch: pytest.MonkeyPatch, newest: Method, whole: bool, request_: Request, method: Method, each: bool
) -> None:
    attachment = attached(monkeypatch, newest, whole, request_)
    assert (attachment.method, attachment.each_process) == (method, each)
    assert attachment._filtered != each


@pytest.mark.parametrize(
    ("pid", "words"),
    [
        (os.getpid(), r"^these processes map no libssl, .* and --wait waits for a libssl that is loaded later\.$"),
        (1 << 22, r"^none of the processes to trace is left: .*\.$"),  # past the greatest PID
    ],
    ids=["there", "gone"],
)
def test_why_no_call_can_begin_is_told_in_a_whole_sentence(monkeypatch: pytest.MonkeyPatch, pid: int, words: str) -> None:
    attachment = attached(monkeypatch, Method.MULTI, True, Request((image(pid),), ()))
    with pytest.raises(AttachError, match=words):
        attachment.attach()


def both(monkeypatch: pytest.MonkeyPatch, request: Request) -> tuple[Attachment, Attachment]:
    """An attachment and another beside it, whose objects are played, both loaded."""
    monkeypatch.setattr(kernel, "best_method", lambda: Method.MULTI)
    monkeypatch.setattr(kernel, "filters_whole_processes", lambda: True)
    opened = [MagicMock(**{"has_map.side_effect": lambda name: name in SHARED}) for _ in range(2)]
    first = Attachment(request, opened[0])
    second = Attachment(request, opened[1], beside=first)
    first.load()
    second.load()
    return first, second


def test_attachments_beside_each_other_have_one_set_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = both(monkeypatch, Request(TWO, (), links="shared", wait=True))
    assert cast(Any, second.object).reuse_map.mock_calls == [
        call(name, cast(Any, first.object).map_fd(name)) for name in SHARED
    ]
    cast(Any, first.object).reuse_map.assert_not_called()
    second.late.add(1)
    assert (first.late_processes, second.late_processes) == (1, 0)
    assert second.targets is first.targets
    assert second.notes is first.notes


@pytest.mark.parametrize("refused", ["made", "loaded"])
def test_why_nobody_is_followed_is_kept(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    following = MagicMock()
    making = MagicMock(return_value=following, side_effect=SsllatencyError("no") if refused == "made" else None)
    following.load.side_effect = SsllatencyError("no")
    monkeypatch.setattr("ssllatency.engines.attach.processes.Following", making)
    first, second = both(monkeypatch, Request(TWO, (), wait=True, follow=Rules()))
    assert (first.following, first.unfollowed) == (second.following, second.unfollowed) == (None, "no")
    assert following.close.call_count == (refused == "loaded")
    making.assert_called_once()


def test_attachments_beside_each_other_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    following = MagicMock()
    first, second = both(monkeypatch, Request(TWO, (), links="shared", wait=True, follow=Rules(), following=following))
    for attachment in (first, second):
        assert cast(Any, attachment.object).reuse_map.mock_calls == [call(name, following.map_fd(name)) for name in SHARED]
        attachment.attach()
    following.attach.assert_called_once_with(first.targets)
    second.close()
    following.close.assert_not_called()
    first.close()
    following.close.assert_called_once_with()


@pytest.mark.parametrize(
    ("newest", "asked", "words"),
    [
        (Method.PERF, "multi", "can't attach by multi, which came with Linux 6.6: leave out --attach, or take perf."),
        (Method.PERF, "session", "can't attach by session, which came with Linux 6.13: leave out --attach, or take perf."),
        (Method.MULTI, "session", "can't attach by session, which came with Linux 6.13: leave out --attach, or take multi."),
    ],
)
def test_a_way_that_the_kernel_lacks_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, newest: Method, asked: str, words: str
) -> None:
    with pytest.raises(AttachError, match=re.escape(words)):
        attached(monkeypatch, newest, False, Request(ONE, (), method=asked))


@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES])
def test_no_way_is_said_to_be_lacking_where_the_kernel_does_not_say(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    answered(monkeypatch, error)
    assert not any(kernel.lacks(method) for method in Method)


@pytest.mark.parametrize(("error", "lacking"), [(errno.EBADF, set()), (errno.EINVAL, {Method.MULTI, Method.SESSION})])
def test_what_a_kernel_lacks(monkeypatch: pytest.MonkeyPatch, error: int, lacking: set[Method]) -> None:
    answered(monkeypatch, error)
    assert {method for method in Method if kernel.lacks(method)} == lacking


def answered(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """The kernel gives this error to a link on what is no file."""
    monkeypatch.setattr(kernel, "_answer_to", lambda _: error)


@pytest.mark.parametrize(("images", "links"), [(ONE, "process"), (MAYBE_ONE, "auto")])
def test_links_that_would_lose_threads_are_refused_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, images: tuple[TracedImage, ...], links: str
) -> None:
    with pytest.raises(AttachError, match="only the first thread of a process"):
        attached(monkeypatch, Method.MULTI, False, Request(images, (), method="multi", links=links))


@pytest.fixture
def asked_for_the_end() -> Iterator[None]:
    """A signal waits that asks for it, as live.prepare() has it wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    yield
    signal.sigtimedwait(STOP, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("asked_for_the_end")
def test_nothing_is_loaded_once_the_end_is_asked_for() -> None:
    opened = MagicMock(**{"has_map.side_effect": lambda name: name in SHARED})
    with pytest.raises(KeyboardInterrupt):
        Attachment(Request(TWO, (), links="shared", wait=True), opened).load()
    opened.load.assert_not_called()


def test_nothing_is_attached_once_the_end_is_asked_for(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    first, _ = both(monkeypatch, Request(TWO, (), links="shared", wait=True))
    following = MagicMock()
    first.processes.following = following
    request.getfixturevalue("asked_for_the_end")
    with pytest.raises(KeyboardInterrupt):
        first.attach()
    following.attach.assert_not_called()


def _planned(build_id: str, *starts: int) -> TracedImage:
    operations = tuple(OperationPlan("SSL_read", start, 16, "by its symbol", ()) for start in starts)
    return replace(image(1), plan=FilePlan("/lib/libssl.so.3", build_id, "", "libssl", operations, ()))


@pytest.mark.parametrize(
    ("one", "other", "may_be"),
    [
        (_planned("aa", 1), _planned("aa", 1), True),
        (_planned("aa", 1), _planned("bb", 1), False),
        (_planned("", 1), _planned("aa", 1), False),
        (_planned("", 1, 2), _planned("", 1, 2), True),
        (_planned("", 1, 2), _planned("", 1, 3), False),
        (_planned(""), _planned(""), False),
    ],
)
def test_files_that_may_be_one(one: TracedImage, other: TracedImage, may_be: bool) -> None:
    """By the build-id or, where there is none, by what is probed."""
    assert may_be_one_file([one, other]) == may_be
    assert may_be_one_file([_planned("cc", 5), one, other]) == may_be


@pytest.mark.parametrize(("level", "named"), [(2, False), (3, True)])
def test_a_refused_perf_event_names_the_setting(level: int, named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12's kernel asks for CAP_SYS_ADMIN for any perf event at 3."""
    monkeypatch.setattr(links.perf, "paranoid_level", lambda: level)
    image = cast(TracedImage, SimpleNamespace(plan=SimpleNamespace(path="libssl.so.3")))
    for method, told in ((kernel.Method.PERF, named), (kernel.Method.MULTI, False)):
        sentence = str(links._refusal(PermissionError(errno.EACCES, ""), image, method))
        assert ("kernel.perf_event_paranoid is 3" in sentence) == told
        assert sentence.endswith("run as root (sudo).")
