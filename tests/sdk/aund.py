"""A real aund for the tests written in Python: started, asked, stopped, killed and started again.

Every server gets a loopback address of its own, so runs in parallel cannot take each other's ports and a restarted
server always finds its port free. Port 443 is used where the machine allows it: some SDK versions know no other.
"""

import http.client
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[2]
ISSUER = "aid.test"
READY_SECONDS = 60


def binary():
    """The server under test: AUND_BIN, else the release build, else the debug build."""
    if os.environ.get("AUND_BIN"):
        return Path(os.environ["AUND_BIN"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "aund" for profile in ("release", "debug")]
    for candidate in built:
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"aund is not built: neither {built[0]} nor {built[1]} exists")


class Aund:
    """One server and its data folder. The folder outlives the process, as it does for an operator."""

    def __init__(self, folder, limits=None, issuer=ISSUER):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.issuer = issuer
        self.gateway = f"gateway.{issuer}"
        self.address = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}.{random.randint(2, 250)}"
        self.port = 443 if can_bind(self.address, 443) else 20443
        self.plain_port = 20080
        self.status = f"{self.address}:20090"
        self.store = store_url()
        self.process = None
        self.gateways = []
        self.starts = 0
        self.limits = limits or {}
        self.peers = []
        self.worked_on = []
        self.starts_runners = False
        self._write_config()

    @property
    def root(self):
        return self.data / "pki" / "root.crt"

    def start(self):
        assert self.process is None, "the server already runs"
        self.starts += 1
        log = open(self.folder / f"aund-{self.starts}.log", "wb")
        self.process = subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=self.folder,
            env=environment(),
        )
        log.close()
        self._wait_until_ready()
        return self

    def terminate(self, seconds=30):
        """SIGTERM, as an operator or a service manager does it; answers with the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._gone(seconds)

    def kill(self):
        """SIGKILL: no close reason, nothing flushed."""
        self.process.kill()
        return self._gone(10)

    def stop(self):
        if self.process is not None:
            self.kill()
        if self.starts_runners:
            self._kill_runners()

    def _kill_runners(self):
        """They outlive their server, and look for it for a long time."""
        home = f"HOME={self.folder}/".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if any(one.startswith(home) for one in (process / "environ").read_bytes().split(b"\0")):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                pass  # It has ended.

    def get(self, path, host=None, headers=None):
        """A plain HTTP GET; the host is free to choose because the server routes by it."""
        connection = http.client.HTTPConnection(self.address, self.plain_port, timeout=10)
        try:
            connection.request("GET", path, headers={"Host": host or self.gateway, **(headers or {})})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def operator(self, service, method, params):
        """The result of a call on the operator's socket of the process that answers."""
        data = self.folder / "split" / f"{service}1" if split() else self.data
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(data / "aund.sock"))
            connection.sendall(json.dumps({"method": method, "params": params}).encode() + b"\n")
            answer = json.loads(connection.makefile().readline())
        assert "result" in answer, f"{method} was refused: {answer}"
        return answer["result"]

    def certificate(self, aid):
        """The current certificate of an AID as PEM text, or None where there is none."""
        status, _, body = self.get(f"/pki/cert/{aid}")
        if status == 404:
            return None
        assert status == 200, f"GET /pki/cert/{aid} answered {status}: {body[:200]!r}"
        return body.decode()

    def calls(self, method, code=None):
        """How often a method was answered since this start, by the server's own count."""
        found = samples(self.metrics(), "aund_requests_total")
        return sum(count for labels, count in found if wanted(labels, method, code))

    def metrics(self):
        """What the server counts; all its gateways together, if it has several."""
        addresses = self.gateways or [self.status]
        return "".join(urlopen(f"http://{address}/metrics", timeout=10).read().decode() for address in addresses)

    def command(self, *words):
        """Runs another aund command on the same data folder."""
        return subprocess.run(
            [binary(), *words, "--data", self.data], capture_output=True, text=True, timeout=60
        )

    def log(self):
        """What the server has written since it was started last."""
        return (self.folder / f"aund-{self.starts}.log").read_text(errors="replace")

    def add_peer(self, other):
        """Tells this server, before it starts, where another domain is."""
        self.peers.append(other)
        self._write_config()

    def work_on_tasks_of(self, aid):
        """Tells this server, before it starts, to work on the tasks of an agent with the example back end."""
        self.worked_on.append(aid)
        self.start_runners()

    def start_runners(self):
        """Tells this server, before it starts, to start runners itself; they end with it."""
        self.starts_runners = True
        self._write_config()

    def trust(self, other):
        """Tells this server, while it runs, which root the other domain has."""
        done = self.command("certs", "trust", "add", other.root, "--domain", other.issuer)
        assert done.returncode == 0, done.stderr

    def _write_config(self):
        lines = [
            f'issuer = "{self.issuer}"',
            f'listen = ["{self.address}:{self.port}", "plain:{self.address}:{self.plain_port}"]',
            f'data = "{self.data}"',
            f'store.url = "{self.store}"',
            # Each process of a split server has a status listener of its own.
            *([] if split() else [f'status.listen = "{self.status}"']),
            # The process of runs knows by itself only of a gateway beside it.
            *([f'run.manager_url = "http://{self.address}:{self.plain_port}"'] if split() and self.starts_runners else []),
            *(f'run.agents."{aid}" = {{ tenant = "hwlab" }}' for aid in self.worked_on),
            "[limits]",
            *(f"{name} = {value}" for name, value in self.limits.items()),
            "[federation.resolve]",
            *(f'"{other.issuer}" = "{other.address}:{other.port}"' for other in self.peers),
        ]
        (self.folder / "aund.toml").write_text("\n".join(lines) + "\n")

    def _command(self):
        server = [sys.executable, ROOT / "tests/split/serve"] if split() else [binary()]
        return [*server, "serve", "--config", self.folder / "aund.toml"]

    def _wait_until_ready(self):
        lines = queue.Queue()
        threading.Thread(target=drain, args=(self.process.stdout, lines), daemon=True).start()
        deadline = time.monotonic() + READY_SECONDS
        said = []
        while True:
            try:
                line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"aund was not ready in time; it said {said}\n{self.log()}") from None
            if line is None:
                code = self._gone(10)
                raise AssertionError(f"aund ended with {code} before it was ready; it said {said}\n{self.log()}")
            said.append(line)
            # The plain line is the last of the two listeners, so both are open when it has been printed.
            if line.split()[:1] == ["plain"] and not split():
                return
            if line.split()[:1] == ["gateways"]:
                self.gateways = line.split()[1:]
                return

    def _gone(self, seconds):
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"aund did not end within {seconds} s\n{self.log()}") from None
        finally:
            self.process = None


def split():
    """Whether the server under test is many processes that look like one."""
    return os.environ.get("AUND_TEST_SHAPE") == "split"


def environment():
    if not split():
        return None
    return {**os.environ, "AUND_BIN": str(binary()), "AUND_SPLIT_BUS": os.environ["AUND_TEST_REDIS_URL"]}


def store_url():
    """SQLite beside the data, or a schema prefix of its own in the database that the run was given."""
    if os.environ.get("AUND_TEST_STORE", "sqlite") != "postgres":
        return "sqlite:"
    url = os.environ["AUND_TEST_POSTGRES_URL"]
    mark = "&" if "?" in url else "?"
    return f"{url}{mark}schema_prefix=t{uuid.uuid4().hex[:12]}_"


def can_bind(address, port):
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def drain(stream, lines):
    for line in stream:
        lines.put(line.decode(errors="replace").rstrip())
    lines.put(None)


def samples(text, name):
    """The samples of one metric in the Prometheus text format, as (labels, value)."""
    for labels, value in re.findall(rf"^{name}\{{([^}}]*)\}} (\S+)", text, re.MULTILINE):
        yield dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)


def wanted(labels, method, code):
    return labels.get("method") == method and (code is None or labels.get("code") == str(code))


def eventually(what, check, seconds=30, every=0.1):
    """Waits until the check gives something true, and gives it back."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(every)
