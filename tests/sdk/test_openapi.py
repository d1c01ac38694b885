"""Every route of the OpenAPI document, by a tool that knows nothing of the server but that document."""

import json
import subprocess

import pytest
from agents import VENVS
from aund import binary

# Off, each for a reason:
OFF = {
    # An id that does not exist, a URL into a private network, a cursor of no page: rules that no schema can say.
    "positive_data_acceptance",
    # As everywhere in the protocol, null stands for a member that is absent, and members that no schema lists are ignored.
    "negative_data_rejection",
}
# What is served under the host name of an agent, or of the authority, is not there under the gateway's.
OTHER_HOSTS = ("/", "/agent.md", "/root.crt", "/trust-root.json")
# The body is DER, which the tool cannot write.
NO_SERIALIZER = ("/pki/ocsp",)

MANY = 1_000_000
CLASSES = {f'classes."{name}"': MANY for name in ("agent.write", "h2a.write", "agent.publish")}


@pytest.mark.slow
@pytest.mark.limits(http_per_second=MANY, calls_per_second=MANY, **CLASSES)
def test_generated_requests_get_what_the_document_says(server, folder):
    token = registered(server, folder)
    command = [
        VENVS / "schemathesis" / "bin" / "schemathesis",
        "run",
        f"http://{server.address}:{server.plain_port}/openapi.json",
        *("--header", f"Authorization: Bearer {token}"),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--generation-deterministic"),
        *("--exclude-checks", ",".join(sorted(OFF)), "--continue-on-failure", "--no-color"),
    ]
    for path in (*OTHER_HOSTS, *NO_SERIALIZER):
        command += ["--exclude-path", path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=folder)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]


def registered(server, folder):
    """The access token of an agent that is registered as one."""
    home = folder / "home"
    where = ("--gateway", f"{server.address}:{server.port}", "--root", server.root, "--home", home)
    for words in (("register", "alice"), ("call", "alice", "agent.create", '{"name":"Helper"}')):
        subprocess.run([binary(), *words, *where], check=True, capture_output=True, timeout=60)
    return json.loads(next(home.rglob("tokens.json")).read_text())["access_token"]
