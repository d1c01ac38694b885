"""Agents that are real SDK processes, each in the virtual environment of its version."""

import json
import os
import queue
import subprocess
import threading
import uuid
from pathlib import Path

from aund import ROOT, drain

VENVS = Path(os.environ.get("AUND_SDK_VENVS", ROOT / "target" / "tests"))
HERE = Path(__file__).parent


class Agent:
    """One SDK process. Every method of the driver is a method here."""

    def __init__(self, server, version, aid, home, slot=None):
        self.version = version
        self.aid = aid
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        root = home / "roots.pem"
        root.write_text("".join(domain.root.read_text() for domain in (server, *server.peers)))
        job = {
            "aid": aid,
            "home": str(home),
            "slot": slot,
            "root": str(root),
            "domains": [(domain.issuer, domain.address, domain.port) for domain in (server, *server.peers)],
        }
        # The TLS of the server is really verified: its root, and those of its peers, are all this process trusts.
        environment = {**os.environ, "SSL_CERT_FILE": str(root), "HOME": str(home), "AUN_ENV": "production"}
        python = VENVS / f"fastaun-{version}" / "bin" / "python"
        self.log = home.parent / f"agent-{uuid.uuid4().hex[:6]}.log"
        log = open(self.log, "wb")
        self.process = subprocess.Popen(
            [python, HERE / "driver.py", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
        )
        log.close()
        self.answers = queue.Queue()
        threading.Thread(target=drain, args=(self.process.stdout, self.answers), daemon=True).start()

    def __getattr__(self, command):
        return lambda **details: self.ask(command, details)

    def ask(self, command, details, seconds=150):
        request = {"id": uuid.uuid4().hex, "do": command, "with": details}
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()
        line = self.answers.get(timeout=seconds)
        assert line is not None, f"the SDK process ended with {self.process.wait()}"
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(f"{command}: {answer['failed']}", answer["code"])
        return answer["done"]

    def ready(self, retry=None):
        """From nothing, or from what the home remembers, to a session."""
        assert self.connect(retry=retry) == {"state": "ready"}
        return self

    def end(self):
        """Ends the process without a word, as a crash of the application would."""
        self.process.kill()
        self.process.wait()


class Failed(Exception):
    """What the SDK raised, with its code where it has one."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


def numbers(version):
    return tuple(int(part) for part in version.split("."))
