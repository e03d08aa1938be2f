# SPDX-License-Identifier: Apache-2.0
"""The pages docs/benchmarks.md and docs/memory.md: the tables, on which machine and how they were measured."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

from tracers import ROOT

PAGE = """\
# What tracing costs

Written by `make bench`, in one run; run it again to measure your own machine.

{machine}

## The aim: no more than {aim:.0%} of the time that ssllatency.bt adds

{verdict}

## In a TLS pump

A server and its client in one process over a BIO pair (bench/pump.c): one SSL_read and one SSL_write of 64 bytes in turn,
{turns:,} turns a batch, the fastest of {batches} batches in each of {rounds} rounds.

{pump}

## In one nginx worker, keep-alive

One worker on a CPU of its own, RSA 2048, TLS 1.3, 1 KiB a response; wrk with {connections} connections on another CPU,
{seconds} s in each round. CPU time is the worker's own, so it does not depend on whether the client could keep it busy.

{keep_alive}

## In one nginx worker, Connection: close

The same with a full handshake for each request.

{close}

## What `snoop --min 1ms` adds, of what `trace` does

{snoop}

## With many processes

One pump works and is traced together with idle ones; links of its own for each process against one link for all with a filter
in the program. `ssllatency` takes links of their own up to {limit} processes. ("-": not tried. The kernel's work to attach and
detach links of their own grows with the square of the number of processes; with 500 it takes minutes.)

{growth}

## What an unrelated process pays

Another pump on the same libssl, which isn't traced, while the first one is.

{unrelated}

## To start

From the start of the command to the line that says it is tracing, medians of the rounds; a first start finds no plan of the
libraries in the cache. What a tracer holds meanwhile is in [memory.md](memory.md).

{start}

## How to read it

- *no tracing*: nothing attached. *empty program*: a BPF program that does nothing at the very sites that ssllatency uses:
  what the kernel takes for the probes themselves. *ssllatency.bt*: bpftrace's own script as the distribution ships it,
  which traces every process of the machine and fewer functions. *ssllatency handshakes*: whole handshakes instead of calls.
  *ssllatency snoop --min 1ms*: one line for each call that took so long.
- The tracers take turns within each round. What one adds is the difference to *no tracing* of the same round; the table has
  the median over the rounds, and the quartiles, between which half of the rounds lie. Both ratios are of added time; "-"
  where what they would be divided by is lost in the noise.
- A run that counts calls is valid only when the tracer's own output has all the calls that were made.
"""

MEMORY_PAGE = """\
# What a tracer holds

Written by `make bench-memory` (and by `make bench`); run it again to measure your own machine. This page is the home of these
figures: other pages point here.

{machine}

MiB, the most of {runs} runs each, on one nginx worker that was under load for {seconds} s (wrk, {connections} connections at a
time, a new one for each request) before it was looked at.

{table}

- *first start*: the most until it is attached where no plan of the libraries is in the cache; *later starts*: where they are.
  The tracer and all processes that it has started count, looked at every few milliseconds. *tracing*: the same once it traces.
- These three are proportional set sizes (PSS): a page that processes share is divided among them, so it depends a little on
  what else runs. *RSS*, which `ps` and `top` show, has it in full for each, Python's own code and the C library's among it.
  *at rest*: the same after the start and before the load, without the kernel's maps that the tracer maps.
- *kernel*: the maps and programs that these processes have open, by `memlock` in `/proc/PID/fdinfo`, and the buffers of perf
  events that they map, each read from the running tracer. A memory cgroup's account of the kernel's memory, which has page
  tables and stacks as well, was at most 1 MiB higher for each command of ssllatency's (compared by hand). What of a map the
  tracer maps is in PSS and RSS, too.
- Nearly all maps are made at the start, whatever the load. `handshakes` and `record` make room for the handshakes that can be
  in flight at a time, `--max-in-flight` ([handshakes.md](handshakes.md)), and `snoop` for calls that aren't printed yet,
  `--buffer` ([snoop.md](snoop.md)).
- *ssllatency.bt*: bpftrace's own script as the distribution ships it. It keeps no plans.
"""


def machine() -> str:
    """Date, kernel, CPU and versions, as a list."""
    facts = {
        "Date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "Kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "CPU": _cpu(),
        "OpenSSL": _version("openssl", "version"),
        "nginx": _version("nginx", "-v"),
        "bpftrace": _version("bpftrace", "--version"),
        "bcc": _version("/usr/bin/python3", "-c", "import bcc; print(bcc.__version__)"),
        "wrk": _version("wrk", "-v"),
        "Python": _version("/usr/bin/python3", "--version"),
        "ssllatency": _version(str(ROOT / "tools" / "ssllatency"), "--version"),
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    kind = " (virtual machine)" if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE) else ""
    return f"{os.cpu_count()} x {model[1] if model else 'unknown'}{kind}"


def _version(*command: str) -> str:
    """The first number with a dot in the first line that a program says of itself."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    match = re.search(r"\d+\.\d[\w.+-]*", (done.stdout or done.stderr).partition("\n")[0])
    return match[0] if match else "unknown"
