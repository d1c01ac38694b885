"""The page of `aund demo --web` in Chromium, used as a person uses it: against a server with the example back end."""

import json
import os
import queue
import struct
import subprocess
import tempfile
import threading
import zlib
from pathlib import Path

import pytest
from aund import ROOT, Aund, binary, drain
from browser import driven, end
from devtools import SHIFT, Tab

SECONDS = 60
# A runner is a process that has to start first, on a machine that does much else.
RUN_SECONDS = 60

IDLE = "!document.querySelector('[data-running]') && document.querySelector('#stop').hidden"
LAST = "[...document.querySelectorAll('.agent')].at(-1)"


@pytest.fixture
def server(folder):
    """A server that starts runners, whatever shape it has."""
    server = Aund(folder / "server")
    server.start_runners()
    yield server.start()
    server.stop()


@pytest.fixture
def demo(folder, server):
    """The command as a person runs it. Its agent is in a home of its own, so it can be started again."""
    running = []

    def start():
        running.append(Demo(folder, server))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def tab(folder):
    """A tab of a browser of its own, in which every name but 127.0.0.1 leads nowhere."""
    with tempfile.TemporaryDirectory(prefix="aund-chromium-", ignore_cleanup_errors=True) as profile:
        log = folder / "chromium.log"
        browser = driven(profile, log)
        try:
            tab = Tab(log)
            tab.look_like(900)
            yield tab
            tab.close()
        finally:
            end(browser)


@pytest.fixture
def shot(tab):
    """Keeps how the page looks, light and dark, on a phone and on a large screen."""
    kept = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tests" / "logs" / "demo-page"

    def keep(name):
        for width, height in ((360, 740), (900, 800), (1400, 900)):
            for scheme in ("light", "dark"):
                tab.look_like(width, height, scheme)
                wide = tab.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} wide at {width}"
                assert tab.evaluate("document.querySelector('#latest').hidden"), f"{name}: the end is out of view at {width}"
                tab.screenshot(kept / f"{name}-{width}-{scheme}.png")
        tab.look_like(900)

    return keep


class Demo:
    def __init__(self, folder, server):
        self.log = folder / "demo.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [
                    binary(), "demo", "--web", "--plain", "--home", folder / "home",
                    "--gateway", f"{server.address}:{server.port}", "--root", server.root, "--issuer", server.issuer,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
            )
        lines = queue.Queue()
        threading.Thread(target=drain, args=(self.process.stdout, lines), daemon=True).start()
        said = []
        while not (said and said[-1].strip().startswith("http://")):
            said.append(lines.get(timeout=SECONDS))
            assert said[-1] is not None, f"the demo ended after {said}: {self.log.read_text()}"
        self.url = said[-1].strip()
        self.aid = next(line.split()[-1].rstrip(".") for line in said if line.startswith("The page speaks for "))
        self.token = self.url.partition("#token=")[2]

    def stop(self):
        """As Ctrl-C does it."""
        if self.process.poll() is None:
            self.process.send_signal(2)
        return self.process.wait(timeout=30)


def opened(tab, demo):
    tab.open(demo.url)
    tab.until("document.activeElement?.id === 'text'")


def say(tab, text):
    """Types and sends a message, and waits until it is shown."""
    before = tab.count(".user")
    tab.click("#text")
    tab.type(text)
    tab.press("Enter")
    tab.until(f"document.querySelectorAll('.user').length === {before + 1}")


def said_at_last(tab, text):
    """Waits until the run has ended with this text in the newest answer."""
    tab.until(f"{IDLE} && {LAST}?.innerText.includes({json.dumps(text)})", RUN_SECONDS)


def test_a_person_talks_to_the_example_agent(server, demo, tab, shot, folder):
    page = demo()
    opened(tab, page)
    # The token is nowhere that a person copies by accident, or the browser remembers.
    assert tab.evaluate("location.href") == page.url.partition("#")[0]
    assert tab.count("[data-prompt]") == 3
    shot("empty")

    # An example, with a tool whose call can be looked into.
    tab.click("[data-prompt*='/tool']")
    said_at_last(tab, "You said: What time is it? /tool")
    assert tab.evaluate(f"{LAST}.querySelector('.steps').innerText").split() == ["router", "worker"]
    assert "clock" in tab.evaluate(f"{LAST}.querySelector('.tool summary').innerText")
    assert not tab.evaluate(f"{LAST}.querySelector('.tool').open")
    tab.click(".tool summary")
    assert "timezone" in tab.evaluate(f"{LAST}.querySelector('.tool .inside').innerText")
    # A screen reader is told of the answer once it is whole.
    assert "You said" in tab.evaluate("document.querySelector('#announcer').textContent")

    # A question, answered from the keyboard. Enter alone accepts nothing.
    say(tab, "May you? /ask")
    tab.until("document.activeElement.matches('.question')", RUN_SECONDS)
    tab.press("Enter")
    assert tab.count(".question button") == 3
    shot("question")
    tab.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Accept"
    tab.press("Enter")
    said_at_last(tab, "approved")
    assert "You chose Accept." in tab.text()

    # Text comes word by word, and Esc ends it.
    say(tab, "Count slowly /slow")
    tab.until_shown("word5", RUN_SECONDS)
    assert "word50" not in tab.text()
    shot("streaming")
    tab.press("Escape")
    said_at_last(tab, "You stopped this run.")
    assert "word50" not in tab.text()

    say(tab, "Show it /ui")
    said_at_last(tab, "You said: Show it /ui")
    tab.until("document.querySelector('.ui-badge')")
    shot("ui_schema")

    pictures = [picture(folder / f"{name}.png", 8) for name in ("first", "second")]
    tab.choose_files("#files", *pictures)
    tab.until("document.querySelectorAll('#pictures img').length === 2")
    tab.click("#pictures li:first-child button")
    tab.until("document.querySelectorAll('#pictures img').length === 1")
    tab.click("#text")
    tab.type("What is this? /image")
    tab.press("Enter", SHIFT)
    tab.type("In two lines.")
    tab.press("Enter")
    said_at_last(tab, "1 image")

    say(tab, "And now /fail")
    said_at_last(tab, "The run has failed: asked to fail")
    shot("error")

    # After a reload the page has it all from the server, pictures included.
    tab.reload()
    tab.until("document.querySelectorAll('.user').length >= 6")
    for text in ("Today", "approved", "What is this? /image\nIn two lines."):
        tab.until_shown(text)
    tab.until("document.querySelector('.ui-badge')")
    tab.until("document.querySelector('.sent-pictures img').naturalWidth === 8")
    shot("history")

    tab.click("#new-conversation")
    tab.until("!document.querySelector('#welcome').hidden")
    assert tab.count(".turn") == 0
    assert not tab.problems


def test_a_run_is_followed_again_after_a_reload(server, demo, tab):
    opened(tab, demo())
    say(tab, "Count slowly /slow")
    tab.until_shown("word3", RUN_SECONDS)
    tab.reload()
    tab.until_shown("word10", RUN_SECONDS)
    assert tab.evaluate(f"{LAST}.innerText.split('word1 ').length") == 2, "each word once"
    tab.click("#stop")
    said_at_last(tab, "You stopped this run.")

    say(tab, "May you? /ask")
    tab.until("document.querySelectorAll('.question button').length === 3", RUN_SECONDS)
    tab.reload()
    tab.until("document.querySelectorAll('.question button').length === 3", RUN_SECONDS)
    tab.click(".answers .plain")
    said_at_last(tab, "declined")
    assert not tab.problems


def test_a_second_start_finds_the_conversation_and_a_page_without_a_token_says_what_to_do(server, demo, tab):
    first = demo()
    opened(tab, first)
    say(tab, "Remember me")
    said_at_last(tab, "You said: Remember me")
    assert first.stop() == 0
    say(tab, "Are you there?")
    tab.until_shown("Is aund demo --web still running?", SECONDS)

    second = demo()
    assert second.token != first.token
    opened(tab, second)
    tab.until_shown("You said: Remember me")

    # What is shown is text, whatever it looks like.
    say(tab, "<img src=x onerror=alert(1)><b>bold</b>")
    said_at_last(tab, "You said: <img src=x onerror=alert(1)><b>bold</b>")
    assert tab.count("main b:not([data-prompt] b)") == 0

    tab.evaluate("sessionStorage.clear()")
    tab.reload()
    tab.until_shown("Run aund demo --web again and open the address that it prints.")


def test_a_token_that_is_refused_is_exchanged_without_a_word(server, demo, tab, folder):
    page = demo()
    opened(tab, page)
    # All tokens of the agent end, as they do after an hour; its key makes new ones.
    revoked = subprocess.run(
        [
            binary(), "certs", "revoke", "--as", page.aid, "--tokens", "--home", folder / "home",
            "--gateway", f"{server.address}:{server.port}", "--root", server.root, "--issuer", server.issuer,
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert revoked.returncode == 0, revoked.stderr
    say(tab, "Still there?")
    said_at_last(tab, "You said: Still there?")
    assert tab.evaluate("sessionStorage.getItem('aund.token')") != page.token
    assert not tab.problems


def test_events_are_read_as_the_standard_says_however_they_are_cut(server, demo, tab):
    opened(tab, demo())
    stream = (
        ": a comment\r\n\r\nid: 1-0\r\nevent: A\r\ndata: one\r\n\r\n"
        "data:two\ndata: lines\n\nid: 3-0\nevent: without data\n\n"
        "id\rdata: \u00e4\rretry: 5\r\rdata: not ended"
    )
    read = """(cut => import("/sse.js").then(({ EventParser }) => {
        const parser = new EventParser();
        return cut.flatMap(text => parser.take(text)).map(({ id, name, data }) => [id, name, data]);
    }))"""
    expected = [["1-0", "A", "one"], ["1-0", "message", "two\nlines"], ["", "message", "\u00e4"]]
    assert tab.evaluate(f"{read}({json.dumps([stream])})") == expected
    assert tab.evaluate(f"{read}({json.dumps(list(stream))})") == expected
    halves = [[stream[:at], stream[at:]] for at in range(len(stream))]
    assert tab.evaluate(f"Promise.all({json.dumps(halves)}.map({read}))") == [expected] * len(halves)


@pytest.mark.parametrize("zone, offset", [("America/St_Johns", "-03:30"), ("Asia/Kathmandu", "+05:45"), ("UTC", "+00:00")])
def test_the_time_of_the_device_has_its_offset(server, demo, tab, zone, offset):
    opened(tab, demo())
    tab.call("Emulation.setTimezoneOverride", timezoneId=zone)
    written = tab.evaluate("import('/run.js').then(run => run.isoWithOffset(new Date('2026-01-15T23:30:00Z')))")
    day = {"-03:30": "2026-01-15T20:00:00", "+05:45": "2026-01-16T05:15:00", "+00:00": "2026-01-15T23:30:00"}[offset]
    assert written == day + offset


def picture(path, size):
    """A PNG of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x2a\x7f\x6b" * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    return path
