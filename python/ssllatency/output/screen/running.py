# SPDX-License-Identifier: Apache-2.0
"""Runs the full screen: a thread reads, the application draws, and both end together."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

from ssllatency.model.live.reading import LiveReading
from ssllatency.output.page import output_page
from ssllatency.output.printing import tell
from ssllatency.output.screen.need import forget_settings
from ssllatency.output.screen.recorder import Recorder
from ssllatency.reports.live.shown import ViewChoice


def run_screen(
    readings: Iterator[LiveReading],
    ask_for_end: Callable[[], None],
    choice: ViewChoice,
    recorder: Recorder,
    stays: Callable[[], str],
) -> None:
    """Draws the readings until there are no more of them, or until the user quits, which `ask_for_end` brings about. `stays`
    says why the screen is to stay when there are no more, "" where it isn't to."""
    forget_settings()
    from ssllatency.output.screen.app import Ended, Read, TopApp  # with Textual, once the probes are attached
    from ssllatency.output.screen.keys import read_keys_apart

    read_keys_apart()

    failed: list[BaseException] = []

    def read(app: TopApp) -> None:
        try:
            for reading in readings:
                app.post_message(Read(reading, recorder.take(reading)))
        except BaseException as error:
            failed.append(error)
            app.post_message(Ended())
        else:
            app.post_message(Ended(stays()))

    threads: list[threading.Thread] = []

    def begin(app: TopApp) -> None:
        threads.append(threading.Thread(target=read, args=(app,), name="reader"))
        threads[0].start()

    app = TopApp(choice, recorder, unicode=output_page().unicode, begin=begin)
    try:
        app.run(mouse=False)
    finally:
        ask_for_end()
        for thread in threads:
            thread.join()
        if kept := recorder.close():
            tell(kept)
    sys.stdout.flush()
    for error in (*failed, *([app._exception] if app._exception else ())):
        raise error
