"""A real browser without a window, spoken to over a pipe in the DevTools protocol."""

import base64
import fcntl
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)

needs_browser = pytest.mark.skipif(
    EXECUTABLE is None, reason="no chromium or google-chrome (apt-get install chromium)"
)

AXE = Path(os.environ.get("AXE_CORE", "node_modules/axe-core")) / "axe.min.js"
"""The library that finds what some people cannot use on a page."""

needs_axe = pytest.mark.skipif(
    not AXE.exists(),
    reason="no axe-core (npm install --no-save axe-core, or AXE_CORE names its folder)",
)

KEYS = {"Escape": 27, "ArrowRight": 39, "ArrowLeft": 37, "Enter": 13, "Tab": 9}


class Browser:
    """One page; `problems` collects what the console and the network have to complain about."""

    def __init__(self, profile):
        theirs_to_read, self.command = os.pipe()
        self.answer, theirs_to_write = os.pipe()
        # The browser reads from 3 and writes to 4; neither may be one of the ends by chance.
        ends = [
            fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_to_read, theirs_to_write)
        ]
        silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        wires = [
            (os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(ends, (3, 4), strict=True)
        ]
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        quiet = ["--no-first-run", "--disable-background-networking", "--mute-audio"]
        wiring = ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = os.posix_spawn(
            EXECUTABLE,
            [EXECUTABLE, *flags, *quiet, *wiring],
            os.environ,
            file_actions=silence + wires,
        )
        for end in (theirs_to_read, theirs_to_write, *ends):
            os.close(end)
        self.waiting, self.n_sent, self.session, self.problems, self.requests = b"", 0, None, [], []
        self.events = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        with suppress(RuntimeError, OSError):
            self.send("Browser.close")
        os.waitpid(self.process, 0)
        os.close(self.command)
        os.close(self.answer)

    def send(self, method, **params):
        """Return what the browser answers."""
        self.n_sent += 1
        message = {"id": self.n_sent, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.command, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self.n_sent:
            self._record(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self):
        while b"\0" not in self.waiting:
            part = os.read(self.answer, 2**20)
            if not part:
                raise RuntimeError("The browser has ended.")
            self.waiting += part
        message, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(message)

    def _record(self, event):
        method, params = event.get("method"), event.get("params", {})
        self.events.append(method)
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.problems.append(params)
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path):
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self.events:
            self._record(self._receive())

    def ask(self, expression):
        """Return the value of an expression in the page."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def accessibility_violations(self):
        """Return what axe-core finds: the rule, and the elements that break it."""
        self.ask(AXE.read_text(encoding="utf-8") + "; 0")
        found = self.ask("axe.run().then((result) => result.violations)")
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]

    def click(self, selector):
        """Press the left button over the middle of an element, as a mouse does."""
        x, y = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key):
        """Press a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)
        # What a key does may be done a moment later.
        self.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def resize(self, width, height):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def screenshot(self, *, whole=True):
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])
