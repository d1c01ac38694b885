"""Every route of the OpenAPI document, by a tool that knows nothing of the server but that document."""

import asyncio
import http.client
import subprocess
import sys
from pathlib import Path

import pytest
from agents import VENVS

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from connection import Key, opened  # noqa: E402, it needs the path

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

# An id may be the AID of an agent of another domain, which cannot be reached. That has to be documented as every status has.
CONFIG = """[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "502"]
"""

MANY = 1_000_000
CLASSES = {f'classes."{name}"': MANY for name in ("agent.write", "h2a.write", "agent.publish")}


@pytest.mark.slow
@pytest.mark.limits(http_per_second=MANY, calls_per_second=MANY, **CLASSES)
def test_generated_requests_get_what_the_document_says(server, folder):
    token = registered(server)
    config = Path(folder) / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        VENVS / "schemathesis" / "bin" / "schemathesis",
        *("--config-file", config),
        "run",
        f"http://{server.address}:{server.plain_port}/openapi.json",
        *("--header", f"Authorization: Bearer {token}"),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--generation-deterministic"),
        *("--exclude-checks", ",".join(sorted(OFF)), "--continue-on-failure", "--no-color"),
    ]
    for path in (*OTHER_HOSTS, *NO_SERIALIZER):
        command += ["--exclude-path", path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=220, cwd=folder)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]


async def logged_in(server):
    aid, key = f"alice.{server.issuer}", Key()
    async with opened(server) as connection:
        certificate = await connection.register(aid, key)
        return (await connection.login(aid, key, certificate))["access_token"]


def registered(server):
    """The access token of an agent that is registered as one."""
    token = asyncio.run(logged_in(server))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Host": server.gateway}
    connection = http.client.HTTPConnection(server.address, server.plain_port, timeout=10)
    connection.request("POST", "/agents", '{"name":"Helper"}', headers)
    assert connection.getresponse().status == 201
    return token
