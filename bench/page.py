# SPDX-License-Identifier: Apache-2.0
"""The pages benchmarks.md and memory.md of docs/measured: the tables, on which machine and how they were measured."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

from bench.measuring.tracers import ROOT

PAGE = """\
# What tracing costs

Written by `make bench`, in one run. Every figure here is of this machine and this run alone: a probe hit takes 0.2 µs on one
machine and 0.9 µs on another, and the figures follow. Run it again to measure your own.

{machine}
- Seed of the orders: {seed} (`bench/run.py --seed {seed}` takes the tracers in the same orders)
{left_out}
Figures have their 95 % intervals in parentheses. *{again}* is no tracing measured as if it were a tracer: it shows
what the machine's noise comes to. What the measurements don't tell from no tracing has no figure, only the interval of its
ratio to no tracing.

## The aim: at most {aim} of the time that ssllatency.bt adds

{verdicts}

## In a TLS pump

A server and its client in one process over a BIO pair (bench/measuring/pump.c): one SSL_read and one SSL_write of 64 bytes in
turn, {batches.turns:,} turns a batch, the fastest of {batches.number} batches in each of {pump_rounds} rounds. Times are the
process' CPU time.

{pump_hits}

{pump}

## By the other engines

The same pump, in {engine_rounds} rounds.

{engine_hits}

{engines}

## In one nginx worker, keep-alive

One worker on a CPU of its own, RSA 2048, TLS 1.3, 1 KiB a response; wrk with {connections} connections on another CPU, and with
copies of the libraries, so that it isn't traced; windows of {keep_alive_s} s in {keep_alive_rounds} rounds. CPU time is the
worker's own, so it depends little on the client.
{keep_alive_busy}

{keep_alive_hits}

{keep_alive}

## In one nginx worker, Connection: close

The same with a full handshake for each request; windows of {close_s} s in {close_rounds} rounds.
{close_busy}

{close_hits}

{close}

## What the programs add to the floor

What `trace` adds, of what empty programs at the same sites add (with Connection: close in {priced_rounds} rounds of fewer
tracers after those above, as what they add is a small part of such a request):

{programs}

{priced_hits}

What `snoop --min 1ms` adds, of what `trace` does:

{snoop}

## What it takes to know whose wait it is

`handshakes` is told when the bytes of peers arrive: [arrival-cost.md](arrival-cost.md) has what that takes.

## What ssllatency says of its own cost

The field `cost` of the trace's document beside what the processes lost by the tables here: nanoseconds a call in the pump
(of an unrelated one: `other_ns`), and the part of a worker's CPU time under full load: by the worker's CPU time for each
system call (`seen_ns`) where that is told, else by hits. With Connection: close it is by the {priced_rounds} rounds of fewer
tracers. The aim is to be right to within {stated_aim:.0f} %.

{stated}

## With many processes

One pump works and is traced together with idle ones, in {growth_rounds} rounds: by the default, and with
`--links process`, with which each process has links of its own. ("-": not tried. The kernel's work to attach and detach links
of their own grows with the square of the number of processes; with 500 it takes minutes.)

{growth_hits}

{growth}

## What an unrelated process pays

A pump on the same libssl that isn't traced, while `-p PID` traces another process, in {unrelated_rounds} rounds. ssllatency.bt
traces the whole machine.

{unrelated_hits}

{unrelated}

## To start

From the start of the command to the line that says it is tracing, means of {start_rounds} starts of each kind; a first start
finds no plan of the libraries in the cache. What a tracer holds meanwhile is in [memory.md](memory.md).

{start}

## How to read it

- *no tracing*: nothing attached. *{floor}*: BPF programs that do nothing at the very sites that ssllatency
  uses: what the kernel takes for the probes themselves. *ssllatency*: `trace` with its default settings. *ssllatency
  handshakes*: whole handshakes instead of calls. *ssllatency snoop --min 1ms*: one line for each call that took so long.
  *ssllatency.bt*: bpftrace's own script as the distribution ships it, which traces every process of the machine and fewer
  functions.
- In each round the tracers take turns in an order of its own, after a measurement that only warms up. Before and after each,
  the same is measured without a tracer; a tracer's ratio is its cost divided by the mean of these two. The ratio given is the
  geometric mean over the rounds, its interval by Student's t of the logarithms; *added* follows from it. One interval of
  twenty doesn't hold the true value: so may that of no tracing.
- There are as many rounds as it takes to know each tracer's ratio to within the bound that bench/run.py sets, or as the time
  for that work allows.
- *in hits*: what is added, divided by what a hit of an empty program costs at an instruction that the kernel emulates, measured
  between these rounds.
- *of the floor's* and *of ssllatency.bt's* are quotients of added time, their intervals by Fieller's theorem.
- A run that counts calls is valid only when the tracer's own output has all the calls that were made, and the tracer
  ended within half a minute when it was interrupted; {repeated} runs were discarded and repeated.
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
  tracer maps is in PSS and RSS, too: of `top` and `export` that is all their room for groups, tens of MiB.
- Nearly all maps are made at the start, whatever the load. `handshakes` and `record` make room for the handshakes that can be
  in flight at a time, `--max-in-flight` ([handshakes.md](../reference/handshakes.md)), and `snoop` for calls that aren't
  printed yet, `--buffer` ([snoop.md](../reference/snoop.md)).
- *export* is two processes, of which one speaks to the network. The full screen of `top` needs Textual's memory beside what
  `top --plain` takes.
- *ssllatency.bt*: bpftrace's own script as the distribution ships it. It keeps no plans.
"""


def machine() -> str:
    """Date, kernel, CPU and versions, as a list."""
    facts = {
        "Date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "Kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "CPU": _cpu(),
        "OpenSSL": version("openssl", "version"),
        "nginx": version("nginx", "-v"),
        "bpftrace": version("bpftrace", "--version"),
        "bcc": version("/usr/bin/python3", "-c", "import bcc; print(bcc.__version__)"),
        "wrk": version("wrk", "-v"),
        "Python": version("/usr/bin/python3", "--version"),
        "ssllatency": version(str(ROOT / "tools" / "ssllatency"), "--version"),
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text()
    facts = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", text, re.MULTILINE))
    numbers = f", family {facts['cpu family']}, model {facts['model']}" if "cpu family" in facts and "model" in facts else ""
    kind = " (virtual machine)" if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE) else ""
    return f"{os.cpu_count()} x {facts.get('model name', 'unknown')}{numbers}{kind}"


def version(*command: str) -> str:
    """The first number with a dot in the first line that a program says of itself."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    match = re.search(r"\d+\.\d[\w.+-]*", (done.stdout or done.stderr).partition("\n")[0])
    return match[0] if match else "unknown"
