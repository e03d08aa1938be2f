# SPDX-License-Identifier: Apache-2.0
"""A script for a host that has only bpftrace: one file that the shell starts and bpftrace reads.

Its first lines are a comment to bpftrace and commands to the shell (`//bin/true; ...`): they see that the libraries are those
that the sites were planned in, unpack the symbol files that the comment below them holds, and start bpftrace with those.
"""

from __future__ import annotations

import base64
import hashlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from ssllatency.engines.attach.code_check import check_content
from ssllatency.engines.base import LinearRange, Side, TracedImage
from ssllatency.engines.bpftrace import script as bpftrace_script
from ssllatency.engines.bpftrace.symbols import symbol_file
from ssllatency.engines.bpftrace.words import WHOLE_WORDS, Words
from ssllatency.errors import SsllatencyError
from ssllatency.probes.plan import FilePlan

_SHELL = """\
#!/bin/sh
//bin/true; # {title}
//bin/true; # For the shell, which checks the libraries and starts bpftrace. To bpftrace these lines are comments.
//bin/true; set -eu; names=$(mktemp -d); trap 'rm -rf "$names"' EXIT INT TERM
//bin/true; fail() {{ echo "$0: $*" >&2; exit 1; }}
//bin/true; sum() {{ sha256sum <"$1" 2>&1 || :; }}
//bin/true; is() {{ [ "$(sum "$2")" = "$1  -" ] || fail "$2 isn't the file that this script was made for: make it anew."; }}
//bin/true; name() {{ mkdir -p "$names/${{2%/*}}"; sed -n "s/^ \\* $1: //p" "$0" | base64 -d >"$names/$2"; }}
//bin/true; command -v bpftrace >/dev/null || fail "bpftrace isn't installed."
{checks}
//bin/true; export BCC_SYMFS="$names" BPFTRACE_MAX_PROBES={probes} BPFTRACE_MAX_BPF_PROGS={probes}
//bin/true; export BPFTRACE_MAP_KEYS_MAX=16384 BPFTRACE_MAX_MAP_KEYS=16384 # one name before 0.20, the other since
//bin/true; (while kill -0 $$; do sleep 1; done; rm -rf "$names") </dev/null >/dev/null 2>&1 &
//bin/true; exec bpftrace "$0"
"""
_SAFE_PATH = re.compile(r"/[A-Za-z0-9_./+@,=~-]+")
# bpftrace looks for the symbols of /proc/PID/root/PATH as if it were PATH, which may be a file of the host's in the same
# script. Spelled otherwise the path is taken as it is.
_ROOT_OF_A_PROCESS = re.compile(r"^(/proc/[0-9]+/)root/")
_END = ["", "END", "{", "clear(@running);", "}"]
_PRINTS = """\
It prints, at its end: @hist, @stat and @most, microseconds of the calls that succeeded, by function; @histF, @statF and @mostF
of all others; @why, what those waited for (retry) or why they failed, as SSL_get_error would say; @lost, calls that were seen
only in part, among them those that ran when the trace began. bpftrace takes some seconds to end, a tenth for each site, and
removes one after the other: let the load rest before Ctrl-C, or part of @lost is calls of those seconds, which weren't lost."""
_CAVEATS = """\
Don't run it on a preemptible kernel from Linux 6.13 on: bpftrace's programs have stacks in per-CPU memory there, which
threads that preempt each other overwrite, and the kernel may go down.
The breakpoints are set for every process that maps the files; a condition picks the processes that are counted. Sites are
entry and exit instructions, as `ssllatency probes` shows them; no return probe is set, so a server with OpenSSL's ASYNC jobs
or fibers of its own comes to no harm. Don't attach it to a process under valgrind."""


def safe_path(path: str) -> bool:
    """Whether a path can be written into the script: a hostile target may choose one that would inject code."""
    return _SAFE_PATH.fullmatch(path) is not None and "/../" not in path


def standalone(
    images: Sequence[TracedImage],
    contents: Sequence[bytes],
    about: Sequence[str],
    *,
    role: Side,
    linear: LinearRange,
    everyone: bool,
) -> str:
    """The script's text. `about` says in lines what it was made for; an image's `file` is where that host has it, and
    `contents` are what was read of the very files that were planned, in the order of the images: none is opened again."""
    for image in images:
        if not safe_path(image.file):
            raise SsllatencyError(
                "the path of a library has characters that a script can't hold: trace it by `ssllatency trace`."
            )
    images = [replace(image, file=_ROOT_OF_A_PROCESS.sub(r"\1./root/", image.file)) for image in images]
    named = [bpftrace_script.sites(image) for image in images]
    if not any(named):
        raise SsllatencyError("none of the functions can be traced by bpftrace: take `ssllatency trace`.")
    numbered = enumerate(zip(images, contents, strict=True), 1)
    checks = [line for number, (image, content) in numbered for line in _checks(number, image, content)]
    shell = _SHELL.format(title=_plain(about[0]), checks="\n".join(checks), probes=sum(map(len, named)) + 64)
    begin = [*WHOLE_WORDS, 'printf("Tracing ... Ctrl-C ends it and prints the report.\\n");']
    body = bpftrace_script.render(images, Words(linear), role=role, everyone=everyone, begin=begin, extra=_END)
    return f"{shell}\n{_comment(images, about)}\n{_symbols(images)}\n{body}"


def _checks(number: int, image: TracedImage, content: bytes) -> list[str]:
    check_content(image, (probe.offset for planned in image.plan.operations for probe in planned.probes), content)
    digest = hashlib.sha256(content).hexdigest()
    return [f"//bin/true; is {digest} {image.file}", f"//bin/true; name {number} {image.file}"]


def _comment(images: Sequence[TracedImage], about: Sequence[str]) -> str:
    lines = [*about, ""]
    for image in images:
        plan = image.plan
        lines += [f"{image.file}: build-id {plan.build_id or '(none)'}, version {plan.version or 'unknown'}"]
        lines += _left_out(plan)
    lines += ["", "Run it as root, by the shell: sh FILE (Ctrl-C ends it)."]
    lines += ["It needs bpftrace (tested with 0.17 and 0.23) and coreutils."]
    lines += ["", *_PRINTS.splitlines(), "", *_CAVEATS.splitlines()]
    return "\n".join(["/*", *(f" * {_plain(line)}".rstrip() for line in lines), " */"])


def _left_out(plan: FilePlan) -> list[str]:
    missing = [f"{entry.function} ({entry.reason})" for entry in bpftrace_script.left_out(plan)]
    return textwrap.wrap(f"not traced: {', '.join(missing)}", 120, initial_indent="    ") if missing else []


def _symbols(images: Sequence[TracedImage]) -> str:
    """The symbol files as base64. bpftrace takes one only where its build-id is the library's."""
    lines = ["/*", " * The names of the sites, a debug file for each library, in base64:"]
    for number, image in enumerate(images, 1):
        encoded = base64.b64encode(symbol_file(bpftrace_script.sites(image), image.plan.build_id, image.plan.machine)).decode()
        lines += [f" * {number}: {line}" for line in textwrap.wrap(encoded, 116)]
    return "\n".join([*lines, " */"])


def _plain(text: str) -> str:
    """In ASCII, and without anything that would end the comment: names and versions are chosen by the target."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text).replace("*/", "* /")
