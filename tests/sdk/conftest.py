"""What the SDK tests share: a server, of a test's own or one for many, and agents that are real SDK processes."""

import fcntl
import os
import tempfile
import uuid
from pathlib import Path

import pytest
from agents import Agent, numbers
from aund import Aund, split

VERSIONS = os.environ.get("AUND_SDK_VERSIONS", "0.2.20 0.3.6 0.4.13 0.5.4 0.5.10 0.5.17 0.5.25").split()
# Between two of the others: they run the tests of the quick run.
BETWEEN = os.environ.get("AUND_SDK_BETWEEN", "").split()

# The agents of all tests on one server have one address, and limits count by address.
MANY_AGENTS = dict.fromkeys(
    (
        "connects_per_second",
        "http_per_second",
        "registrations_per_minute",
        "logins_per_minute",
        "login_failures_per_minute",
        "login_failures_per_prefix",
    ),
    60_000,
)


def pytest_configure(config):
    config.addinivalue_line("markers", "sdk(since=, before=): the SDK versions that can run the test")
    config.addinivalue_line("markers", "only(version, …): the one version of each generation that runs the test")
    config.addinivalue_line("markers", "pairs(sender>receiver, …): the mixed versions that can run the test")
    config.addinivalue_line("markers", "limits(name=value): the server of the test has these limits")
    config.addinivalue_line("markers", "shared: the test disturbs no other, and uses the server that others use")
    config.addinivalue_line("markers", "slow: the SDK waits for half a minute or longer, whatever the store")
    config.addinivalue_line("markers", "smoke: the tests of the quick run")


def pytest_generate_tests(metafunc):
    pairs = metafunc.definition.get_closest_marker("pairs")
    if pairs:
        known = [pair for pair in pairs.args if set(pair.split(">")) <= set(VERSIONS)]
        metafunc.parametrize("pair", known)
    if "version" not in metafunc.fixturenames:
        return
    sdk, only = (metafunc.definition.get_closest_marker(name) for name in ("sdk", "only"))
    versions = VERSIONS
    if only is None and not metafunc.definition.get_closest_marker("smoke"):
        versions = [version for version in VERSIONS if version not in BETWEEN]
    fitting = [version for version in versions if fits(version, **(sdk.kwargs if sdk else {}))]
    metafunc.parametrize("version", [version for version in fitting if only is None or version in only.args])


def fits(version, since="0", before="9"):
    return numbers(since) <= numbers(version) < numbers(before)


@pytest.fixture
def folder():
    """A folder with a short name: the server keeps a socket in its data folder, and socket paths are limited."""
    with tempfile.TemporaryDirectory(prefix="aund-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def shared_server():
    """To start a server takes longer than most of what is tested on it."""
    with tempfile.TemporaryDirectory(prefix="aund-", ignore_cleanup_errors=True) as name:
        server = Aund(Path(name) / "server", MANY_AGENTS).start()
        yield server
        server.stop()


@pytest.fixture
def server(folder, request):
    if request.node.get_closest_marker("shared"):
        yield request.getfixturevalue("shared_server")
        return
    limits = request.node.get_closest_marker("limits")
    server = Aund(folder / "server", limits.kwargs if limits else None).start()
    yield server
    server.stop()


@pytest.fixture
def start(server, folder, request):
    """Makes agents of any version; those that share a name and a home are two processes of one installation."""
    made = []
    # Agents of other tests on the same server have other names.
    end = f"-{uuid.uuid4().hex[:8]}" if request.node.get_closest_marker("shared") else ""

    def make(version, name="alice", home="home"):
        made.append(Agent(server, version, f"{name}{end}.{server.issuer}", folder / home))
        return made[-1]

    yield make
    for agent in made:
        agent.end()


@pytest.fixture
def agent(start, version):
    """Makes agents of the version that runs the test."""
    return lambda name="alice", home="home": start(version, name, home)


@pytest.fixture
def one_at_a_time():
    """Two domains of many processes each need a lot of memory: one such test runs at a time."""
    if not split():
        yield
        return
    with open(Path(tempfile.gettempdir()) / "aund-two-domains.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where a test fails, the tail of every log tells why."""
    report = yield
    folder = item.funcargs.get("folder")
    if report.when == "call" and report.failed and folder is not None:
        server = item.funcargs.get("server")
        elsewhere = server.folder.rglob("*.log") if server is not None else []
        for path in sorted({*folder.rglob("*.log"), *elsewhere}):
            tail = path.read_text(errors="replace").splitlines()[-60:]
            report.sections.append((path.name, "\n".join(tail)))
    return report
