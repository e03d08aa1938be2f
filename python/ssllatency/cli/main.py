# SPDX-License-Identifier: Apache-2.0
"""The entry point of the command. Hardly anything is brought in before the fork server is started, which a first start waits
for, and nothing before Ctrl-C is caught."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself takes longer to bring in than all that is needed here
if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_INTERRUPTED = 130  # as shells have it
_AGAIN_S = 0.001


def main() -> None:
    """Runs the command, and ends this process with its exit status."""
    try:
        status = _run_interruptibly()
    except KeyboardInterrupt:  # before there was anything to end
        status = _INTERRUPTED
    sys.exit(status)


def _run_interruptibly() -> int:
    sys.unraisablehook = _interrupt_again
    try:
        return _run()
    finally:
        import signal  # not before Ctrl-C is caught

        sys.unraisablehook = sys.__unraisablehook__
        signal.setitimer(signal.ITIMER_REAL, 0)  # Python, as it ends, would let it kill this process


def _interrupt_again(unraisable: UnraisableHookArgs) -> None:
    """Has a Ctrl-C come once more, a moment later, that came where Python can raise nothing, as in the callback that it calls
    when a module has been brought in."""
    import signal

    try:
        if unraisable.exc_type is KeyboardInterrupt:
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
    except ValueError:  # in another thread than the first, in which no Ctrl-C comes
        pass
    sys.__unraisablehook__(unraisable)


def _run() -> int:
    from ssllatency.output import streams

    try:
        streams.open_missing()
        return _run_command(sys.argv[1:])
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        streams.drop_unwritten()


def _run_command(arguments: list[str]) -> int:
    from ssllatency.cli.subcommands import ROOMS
    from ssllatency.tracing.planning import fork_server

    traces = not arguments or ROOMS.get(arguments[0]) == "live"  # alone it takes a short look at who is busy
    with fork_server.running(wanted=traces):
        from ssllatency.cli.command_line import run

        return run(arguments)
