"""The program of the README, as it is printed, with the newest SDK.

Names under the domain lead to this server, as the line in /etc/hosts does where they need it; nothing else is changed.
"""

import os
import re
import subprocess

import pytest
from agents import VENVS
from aund import ROOT, Aund

# Runs before the program: every name under the domain leads to the server under test.
LOOKUP = """
import socket
ask = socket.getaddrinfo
def getaddrinfo(host, port, *rest, **named):
    return ask({address!r} if str(host).endswith({issuer!r}) else host, port, *rest, **named)
socket.getaddrinfo = getaddrinfo
"""


@pytest.fixture
def readme_server(folder):
    """With the domain of the README, and the agents that the page has registered by then."""
    server = Aund(folder / "server", issuer="agents.localhost").start()
    for name in ("alice", "bobb"):
        server.command("register", name)
    yield server
    server.stop()


@pytest.mark.only("0.5.25")
def test_the_program_of_the_readme_registers_connects_and_pings(readme_server, folder, version):
    server = readme_server
    program = re.search(r"\$ cat > agent\.py <<END\n(.*?)\nEND\n", (ROOT / "README.md").read_text(), re.S)[1]
    (folder / "data" / "pki").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "pki" / "root.crt").write_text(server.root.read_text())
    lookup = LOOKUP.format(address=server.address, issuer=server.issuer)
    (folder / "sitecustomize.py").write_text(lookup)
    # The port of the README is the default of the server; this one listens where it could.
    (folder / "agent.py").write_text(program.replace("discovery_port=20001", f"discovery_port={server.port}"))
    environment = {
        **os.environ,
        "SSL_CERT_FILE": "./data/pki/root.crt",
        "HOME": str(folder),
        "PYTHONPATH": str(folder),
    }
    python = VENVS / f"fastaun-{version}" / "bin" / "python"
    ran = subprocess.run(
        [python, "agent.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=90
    )
    assert re.search(r"^\{'pong': True, 'timestamp': \d+\}$", ran.stdout, re.M), ran
