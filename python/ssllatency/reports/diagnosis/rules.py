# SPDX-License-Identifier: Apache-2.0
"""The table of all rules. docs/reference/handshakes.md, section DIAGNOSIS, has it in words, docs/symptoms.md what to do."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.reports.diagnosis import application, calls, failures, groups, mixture, network, offload, queue, resumption
from ssllatency.reports.diagnosis.rule import About, Rule, Subject

_RARER_COLLECTIONS = (
    "Less garbage, or a higher GOGC or GOMEMLIMIT, where there is memory, would make collections rarer;"
    " GODEBUG=gctrace=1 shows each."
)

# The condition with its sentence, the next step, where docs/symptoms.md says more, whose doing it is, and what it is about. Of
# rules that weigh the same the first speaks first.
RULES: Sequence[Rule] = (
    Rule(
        offload.software_fallback,
        "Look at the key's type and size, at the engine's list of algorithms, and at whether the server runs ASYNC jobs.",
        "the-offload-isnt-used",
        Subject.OFFLOAD,
        About.FAULT,
    ),
    Rule(
        offload.vain_resumptions,
        "It may poll every job, or a descriptor stays readable as nobody drains it.",
        "the-offload-isnt-used",
        Subject.OFFLOAD,
        About.FAULT,
    ),
    Rule(
        offload.late_resumption,
        "Look at the poll interval, and at what else the thread does.",
        "the-offload-is-slow",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        offload.batches_unfilled,
        "Fewer workers with more connections each, or a shorter time limit of the batch.",
        "the-offload-is-slow",
        Subject.OFFLOAD,
    ),
    Rule(
        offload.offload_waits,
        "Compare with the same key without it.",
        "the-offload-is-slow",
        Subject.OFFLOAD,
    ),
    Rule(queue.saturated, "", "the-server-is-saturated", Subject.QUEUE, About.FAULT),
    Rule(
        queue.blocked_loop,
        "Look at what else it does: requests, or what blocks its event loop (`perf top -p PID`).",
        "something-blocks-the-event-loop",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.other_goroutines,
        "A higher GOMAXPROCS, where processors are idle, would shorten the queue; `perf top -p PID` shows what they do, and"
        " GODEBUG=gctrace=1 whether that is collecting garbage.",
        "goroutines-wait-for-others",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.collections,
        _RARER_COLLECTIONS,
        "collections-delay-goroutines",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.asleep_elsewhere,
        "Look for a lock, a disk, something that stops it, or a server that serves one connection after the other.",
        "the-server-sleeps",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.late_first_call,
        "`ss -ltn` shows how many wait to be accepted (Recv-Q).",
        "connections-wait-to-be-accepted",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.accept_queue_full,
        "Something keeps it from accepting, or the queue is short: listen()'s backlog, and net.core.somaxconn.",
        "the-accept-queue-is-full",
        Subject.ACCEPT_QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.late_server,
        "`top -H -p PID` shows whether its threads are busy; `ssllatency trace -p PID` which calls take long.",
        "the-server-is-late",
        Subject.QUEUE,
        About.FAULT,
    ),
    Rule(
        queue.neighbours,
        "Look for what else runs on these processors (`top`).",
        "others-have-the-processor",
        Subject.PROCESSORS,
        About.FAULT,
    ),
    Rule(
        queue.cpu_quota,
        "Look at cpu.max of its control group, and of those above it.",
        "a-cpu-quota-holds-it",
        Subject.PROCESSORS,
        About.FAULT,
    ),
    Rule(
        calls.off_cpu,
        "A current version tells these apart: measure anew.",
        "the-server-sleeps",
        Subject.PROCESSORS,
    ),
    Rule(
        network.old_version,
        "Allow TLS 1.3, and see with `--by version,sni` who doesn't use it.",
        "tls-12-from-far-away",
        Subject.ROUND_TRIPS,
    ),
    Rule(
        network.far_clients,
        "A server nearer to them helps; a cheaper key doesn't.",
        "the-clients-are-far-away",
        Subject.PEER,
    ),
    Rule(
        network.slow_clients,
        "A capture on a client's side (`tcpdump`) tells the two apart.",
        "the-clients-take-their-time",
        Subject.PEER,
    ),
    Rule(
        network.peer_waits,
        "`ss -ti` shows the connections' round trips.",
        "the-clients-take-their-time",
        Subject.PEER,
    ),
    Rule(
        network.peer_or_server_waits,
        "`top -H -p PID` shows whether its threads are busy, `ss -ltn` whether connections wait to be accepted (Recv-Q).",
        "peer-or-server-isnt-known",
        Subject.PEER,
    ),
    Rule(
        network.losses,
        "`ss -ti` shows with which peers, `nstat -az TcpRetransSegs` and `tc -s qdisc` whether it is this host.",
        "the-network-loses-segments",
        Subject.LOSSES,
        About.FAULT,
    ),
    Rule(
        network.hello_retries,
        "Let this server accept a group that they send a share of, X25519 first of all.",
        "a-second-clienthello",
        Subject.ROUND_TRIPS,
        About.FAULT,
    ),
    Rule(
        network.large_flight,
        "Shorten the certificate chain (no root, ECDSA keys), or raise initcwnd of the route.",
        "the-certificate-chain-is-too-large",
        Subject.ROUND_TRIPS,
        About.FAULT,
    ),
    Rule(
        application.application_waits,
        "Look at callbacks that asked for time (certificate, client hello, a session from elsewhere), and at who calls again.",
        "the-application-calls-late",
        Subject.APPLICATION,
    ),
    Rule(
        application.unknown_waits,
        "`ssllatency snoop -p PID` shows what each call returned.",
        "the-application-calls-late",
        Subject.APPLICATION,
    ),
    Rule(calls.private_key, "", "the-key-is-too-expensive", Subject.KEY),
    Rule(
        calls.key_exchange,
        "X25519 and P-256 cost a fraction of P-384, P-521 and finite fields.",
        "the-key-exchange-is-too-expensive",
        Subject.KEY_EXCHANGE,
    ),
    Rule(
        calls.peer_verification,
        "Shorter chains and ECDSA keys make it cheaper, resumption avoids it; revocation lists may be large.",
        "client-certificates-are-expensive",
        Subject.PEER_VERIFICATION,
    ),
    Rule(
        calls.session_lookup,
        "If a store outside of the process is asked, its answer is awaited in each handshake: tickets need none.",
        "the-session-store-is-slow",
        Subject.SESSION_LOOKUP,
    ),
    Rule(
        calls.callbacks,
        "Look at what they do: choosing certificates, asking for their status (OCSP), storing sessions.",
        "a-callback-is-slow",
        Subject.CALLBACKS,
    ),
    Rule(
        calls.assists,
        _RARER_COLLECTIONS,
        "collections-delay-goroutines",
        Subject.COLLECTIONS,
        About.FAULT,
    ),
    Rule(
        calls.asleep_in_calls,
        "`cat /proc/PID/stack` shows where: a lock, a disk, the network; key logs and message callbacks are in rest.",
        "the-server-sleeps",
        Subject.SLEEP,
        About.FAULT,
    ),
    Rule(
        calls.own_work,
        "`perf top -p PID` shows what it works on.",
        "the-servers-own-work",
        Subject.CALLS,
        last_resort=True,
    ),
    Rule(
        mixture.several_causes,
        "`--slowest 10` shows what the slowest are made of, `--by sni` or `--by peer` whether it is one of several.",
        "several-causes-at-a-time",
        Subject.CALLS,
        last_resort=True,
    ),
    Rule(
        resumption.tickets_refused,
        "Give all servers and workers the same ticket keys, and keep the previous keys until the tickets"
        " made with them have expired.",
        "resumption-doesnt-work",
        Subject.RESUMPTION,
        About.FAULT,
    ),
    Rule(
        resumption.cache_misses,
        "Share the cache between workers and servers, make it larger, or use tickets.",
        "resumption-doesnt-work",
        Subject.RESUMPTION,
        About.FAULT,
    ),
    Rule(
        resumption.never_offered,
        "`openssl s_client -connect HOST:PORT` prints the session ticket that it gets, if any.",
        "resumption-doesnt-work",
        Subject.RESUMPTION,
    ),
    Rule(
        groups.slow_group,
        "Look at what sets it apart: its key, its session settings, its clients' distance.",
        "one-of-several-is-slow",
        Subject.GROUPS,
        About.FAULT,
    ),
    Rule(
        failures.one_reason,
        "`--by sni` and `--by peer` show whose they are.",
        "clients-fail",
        Subject.FAILURES,
        About.FAILURES,
    ),
    Rule(
        failures.many_reasons,
        "*Not successful* lists them; `ssllatency snoop -p PID --outcome failure` shows each as it happens.",
        "clients-fail",
        Subject.FAILURES,
        About.FAILURES,
    ),
    Rule(
        failures.work_in_vain,
        "They gave up, so look at what they waited for first; a shorter accept queue turns them away before the work is done.",
        "clients-leave",
        Subject.LEFT,
        About.FAILURES,
    ),
    Rule(
        failures.abandoned,
        "The mean time shows whether it is a timeout or impatient clients; `--by peer` shows whose they are.",
        "clients-leave",
        Subject.LEFT,
        About.FAILURES,
    ),
)
