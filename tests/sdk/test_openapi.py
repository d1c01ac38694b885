"""Every route of the OpenAPI document, by a tool that knows nothing of the server but that document."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

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

HOOKS = Path(__file__).with_name("openapi_hooks.py")
MANY = 1_000_000
CLASSES = {f'classes."{name}"': MANY for name in ("agent.write", "h2a.write", "agent.publish")}
# The routes of runs: each is tried by everybody whose token it takes.
RUNS = "/api/v1/"
# But those of front ends, who are agents.
OF_RUNS = "^/api/v1/(?!agent/)"
TENANT = "hwlab"


@pytest.mark.slow
@pytest.mark.limits(http_per_second=MANY, calls_per_second=MANY, **CLASSES)
def test_generated_requests_get_what_the_document_says(server, folder):
    everything = [option for path in (*OTHER_HOSTS, *NO_SERIALIZER) for option in ("--exclude-path", path)]
    schemathesis(server, folder, registered(server), *everything, "--exclude-path-regex", OF_RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tenant", "admin", "runner"])
@pytest.mark.limits(http_per_second=MANY, calls_per_second=MANY)
def test_generated_requests_about_runs_get_what_the_document_says(server, folder, kind):
    token, ids = run_token(server, kind)
    # Ids of something that is there: without them almost everything is not found.
    schemathesis(server, folder, token, "--include-path-regex", OF_RUNS, ids=ids)


def schemathesis(server, folder, token, *paths, ids=None):
    config, ids = Path(folder) / "schemathesis.toml", ids or {}
    parameters = "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in ids.items())
    config.write_text(f"hooks = {json.dumps(str(HOOKS))}\n{CONFIG}\n[parameters]\n{parameters}")
    command = [
        VENVS / "schemathesis" / "bin" / "schemathesis",
        *("--config-file", config),
        "run",
        f"http://{server.address}:{server.plain_port}/openapi.json",
        *("--header", f"Authorization: Bearer {token}"),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--generation-deterministic"),
        *("--exclude-checks", ",".join(sorted(OFF)), "--continue-on-failure", "--no-color"),
        *paths,
    ]
    environment = os.environ | {"AUND_TEST_IDS": json.dumps(ids)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=220, cwd=folder, env=environment)
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


def run_token(server, kind):
    """A token of a kind, and the ids of a run that there is for it."""
    made = server.operator("run", "run.token_create", {"tenantId": TENANT})
    tenant = made["token"]
    job = new_job(server, tenant)
    ids = {name: job[name] for name in ("runId", "commandId", "runnerJobId")}
    session = {"tenantId": TENANT, "projectId": "acme/site", "backendProfile": "example"}
    ids["sessionId"] = api(server, tenant, "POST", "sessions", session)["sessionId"]
    if kind == "runner":
        ids |= leased(server, job)
    if kind == "admin":
        return server.operator("run", "run.token_create", {"admin": True})["token"], ids
    return (tenant if kind == "tenant" else job["runnerToken"]), ids


def leased(server, job):
    """The ids of a runner that has the lease, so that its requests are not only refused."""
    token, run = job["runnerToken"], job["runId"]
    register = {"backendProfile": "example", "placement": "host-process"}
    runner = api(server, token, "POST", "runners/register", register)["runnerId"]
    claim = {"runnerId": runner, "attemptId": job["attemptId"], "leaseMs": 600_000}
    epoch = api(server, token, "POST", f"runs/{quote(run)}/claim", claim)["lease"]["epoch"]
    # Nothing comes for which a poll would wait.
    return {"runnerId": runner, "attemptId": job["attemptId"], "epoch": epoch, "waitMs": 0}


def api(server, token, verb, path, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Host": server.gateway}
    connection = http.client.HTTPConnection(server.address, server.plain_port, timeout=10)
    connection.request(verb, RUNS + path, json.dumps(body), headers)
    answer = connection.getresponse()
    data = json.loads(answer.read())
    assert answer.status in (200, 201), data
    return data["data"]


def new_run(server, token):
    run = {
        "tenantId": TENANT,
        "projectId": "acme/site",
        "workspaceRef": {},
        "providerId": "G14",
        "backendProfile": "example",
        "traceSink": None,
    }
    return api(server, token, "POST", "runs", run)["runId"]


def new_job(server, token):
    run = new_run(server, token)
    turn = {"type": "turn", "payload": {"prompt": "hello"}}
    command = api(server, token, "POST", f"runs/{quote(run)}/commands", turn)["commandId"]
    job = {"commandId": command, "launcher": "external"}
    return api(server, token, "POST", f"runs/{quote(run)}/runner-jobs", job)
