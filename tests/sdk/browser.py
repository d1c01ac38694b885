"""A page in headless Chromium that is a client of the server: served from an origin of its own, reporting to whoever serves it."""

import base64
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PAGE = Path(__file__).parent / "page"
FLAGS = (
    "--headless --no-sandbox --no-first-run --disable-gpu --disable-quic --disable-dev-shm-usage --disable-breakpad "
    "--disable-background-networking --disable-component-update --disable-default-apps --disable-extensions "
    "--disable-sync --enable-logging=stderr"
).split()


class Page:
    """The folder `page` at a port of its own, and what its scripts report."""

    def __init__(self):
        self.reports = queue.Queue()
        handler = partial(Handler, self.reports, directory=str(PAGE))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, server, name=""):
        """The page of this name, told which server it is a client of."""
        return f"http://127.0.0.1:{self.server.server_port}/{name}?issuer={server.issuer}&port={server.port}"

    def steps(self, browser, seconds):
        """Every report until the page is done, the browser has ended, or it took too long."""
        deadline = time.monotonic() + seconds
        reports = []
        while True:
            try:
                report = self.reports.get(timeout=1)
            except queue.Empty:
                assert browser.poll() is None, f"Chromium ended with {browser.poll()} after {reports}"
                assert time.monotonic() < deadline, f"the page was not done within {seconds} s; it reported {reports}"
                continue
            if "step" in report:
                reports.append(report)
            if report.get("done"):
                return reports

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Handler(SimpleHTTPRequestHandler):
    # A script of another type is not run, and what the machine calls the ending is its own business.
    extensions_map = {".html": "text/html", ".js": "text/javascript"}

    def __init__(self, reports, *arguments, **options):
        self.reports = reports
        super().__init__(*arguments, **options)

    def do_POST(self):
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def chromium(profile, log, server, url):
    """Chromium with nothing but this page, where every name of the server's domain leads to it and no other name leads anywhere."""
    return launch(
        profile,
        log,
        f"--host-resolver-rules=MAP *.{server.issuer} {server.address},MAP * ~NOTFOUND,EXCLUDE 127.0.0.1",
        f"--ignore-certificate-errors-spki-list={','.join(authorities(server))}",
        url,
    )


def driven(profile, log):
    """Chromium that is driven over its DevTools protocol, where no name but 127.0.0.1 leads anywhere."""
    names = "--host-resolver-rules=MAP * ~NOTFOUND,EXCLUDE 127.0.0.1"
    return launch(profile, log, names, "--remote-debugging-port=0", "about:blank")


def launch(profile, log, *words):
    program = shutil.which("chromium")
    assert program, "chromium is not installed; on Debian it is the package chromium"
    with open(log, "wb") as output:
        return subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "HOME": str(profile)},
            start_new_session=True,
        )


def authorities(server):
    """The keys of the server's own authorities: TLS by a certificate of theirs is accepted, and no other."""
    status, _, chain = server.get("/pki/chain")
    assert status == 200, chain
    for authority in x509.load_pem_x509_certificates(chain):
        key = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        yield base64.b64encode(hashlib.sha256(key).digest()).decode()


def end(browser):
    """Chromium is many processes, all of one group."""
    with suppress(ProcessLookupError):
        os.killpg(browser.pid, signal.SIGKILL)
    browser.wait()
