"""A tab of headless Chromium, driven over its DevTools protocol: what a person does with a page, and what they see of it."""

import base64
import json
import re
import time
from urllib.request import urlopen

from websockets.sync.client import connect

SECONDS = 30

# Named keys, as the protocol wants them.
KEYS = {
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
}
SHIFT = 8


class Tab:
    """The only tab of a browser that is driven; its log says which port it took."""

    def __init__(self, log):
        self.answers = 0
        self.problems = []
        self.socket = connect(page_socket(log), max_size=None)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.answers += 1
        self.socket.send(json.dumps({"id": self.answers, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=SECONDS))
            if message.get("id") == self.answers:
                assert "error" not in message, f"{method} was refused: {message['error']}"
                return message["result"]
            self.note(message)

    def note(self, message):
        """What the page did wrong: exceptions, and what its policy forbids. Refusals by the server are no fault of the page."""
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"].get("exception", {}).get("description", params))
        if message.get("method") == "Log.entryAdded" and params["entry"]["source"] in ("security", "violation", "javascript"):
            self.problems.append(params["entry"]["text"])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def reload(self):
        """Loads the page again, and waits until it is another one."""
        self.evaluate("window.isBefore = true")
        self.call("Page.reload")
        self.until("!window.isBefore && document.readyState === 'complete'")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def until(self, expression, seconds=SECONDS):
        """Waits until an expression is true, and gives its value."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = self.evaluate(expression)
            except AssertionError as error:
                # The page is loaded again at this moment.
                found, last = None, error
            else:
                last = found
            # An element of the page comes as an empty object.
            if found not in (None, False, 0, ""):
                return found
            assert time.monotonic() < deadline, (
                f"{expression} was not true within {seconds} s, but {last!r}; the page has {self.problems} and shows\n{self.text()}"
            )
            time.sleep(0.05)

    def until_shown(self, text, seconds=SECONDS):
        self.until(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    def text(self):
        return self.evaluate("document.body.innerText")

    def count(self, selector):
        return self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def click(self, selector):
        """A real click in the middle of an element, once it rests."""
        place = None
        while place != (place := self.place(selector)):
            time.sleep(0.05)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def place(self, selector):
        return self.until(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); if (!found) return null;"
            " found.scrollIntoView({ block: 'nearest' }); const { x, y, width, height } = found.getBoundingClientRect();"
            " return width && { x: x + width / 2, y: y + height / 2 }; })()"
        )

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers, **KEYS[key])

    def choose_files(self, selector, *paths):
        document = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def look_like(self, width, height=900, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        # Colours that change one into the other are neither.
        self.until("document.getAnimations().every(animation => !(animation instanceof CSSTransition))")

    def screenshot(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.socket.close()


def page_socket(log):
    """The socket of the tab, as soon as the browser has said where it listens."""
    deadline = time.monotonic() + SECONDS
    while True:
        said = log.read_text(errors="replace") if log.exists() else ""
        port = re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/", said)
        if port:
            with urlopen(f"http://127.0.0.1:{port[1]}/json/list", timeout=10) as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                return tabs[0]["webSocketDebuggerUrl"]
        assert time.monotonic() < deadline, f"Chromium has no tab; it said {said}"
        time.sleep(0.05)
