# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that is told what to do over a pipe, by the DevTools protocol: how a page looks, prints and fits."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

PROGRAMS = ("chromium-headless-shell", "chromium")
# No sandbox: the pages are our own, and root can't have one.
_OPTIONS = "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --remote-debugging-pipe"


def chromium() -> str | None:
    """The program, None where this machine has none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Tab:
    """One page in the browser. `requests` are the addresses that it asked for."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self.requests: list[str] = []
        self.loaded = False
        self._commands, self._answers, self._number, self._session = commands, answers, 0, ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self._ask(f"{domain}.enable")

    def show(self, page: Path, width: int, scheme: str = "light") -> None:
        """Opens a file at a width, in "light" or "dark"."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", features=features)
        self.loaded, self.requests = False, []
        self._ask("Page.navigate", url=page.as_uri())
        while not self.loaded:
            self._take(self._next())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives in the page; a promise is waited for."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as a PNG file."""
        return base64.b64decode(self._ask("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def printed(self) -> bytes:
        """The page as a PDF file on A4 paper."""
        answer = self._ask("Page.printToPDF", preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        """Ends the whole browser."""
        self._session = ""
        self._ask("Browser.close")

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        command = {"id": self._number, "method": method, "params": parameters, **session}
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while (message := self._next()).get("id") != self._number:
            self._take(message)
        assert "error" not in message, message
        return message["result"]

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self.loaded = self.loaded or message.get("method") == "Page.loadEventFired"

    def _next(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        return json.loads(message)  # type: ignore[no-any-return]


@contextmanager
def browser() -> Iterator[Tab]:
    """A tab in a browser of its own, which ends with the block."""
    program = chromium()
    assert program, "no Chromium here"
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    with TemporaryDirectory() as profile:
        # The browser reads from descriptor 3 and writes to 4.
        script = f'exec "$0" {_OPTIONS} --user-data-dir="$1" 3<&{commands_out} 4>&{answers_in}'
        process = subprocess.Popen(
            ["bash", "-c", script, program, profile], pass_fds=(commands_out, answers_in), stderr=subprocess.DEVNULL
        )
        os.close(commands_out)
        os.close(answers_in)
        try:
            with os.fdopen(commands_in, "wb") as commands, os.fdopen(answers_out, "rb") as answers:
                tab = Tab(commands, answers)
                yield tab
                tab.close()
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait(10)
