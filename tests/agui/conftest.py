"""What the tests of AG-UI share: one server, agents of it, and a process of Node per published client."""

import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sdk"))
sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from api import AguiServer, Person  # noqa: E402, it needs the path
from front_end import NEW, OLD, FrontEnd  # noqa: E402

# The agents of all tests have one address, and limits count by address.
MANY_AGENTS = dict.fromkeys(
    ("connects_per_second", "http_per_second", "registrations_per_minute", "logins_per_minute", "calls_per_second"), 60_000
)


def pytest_configure(config):
    config.addinivalue_line("markers", "npm: needs the packages of npm/package.json, installed in AUND_AGUI_NPM")
    config.addinivalue_line("markers", "models: needs an environment with requirements.txt, AUND_AGUI_PYTHON")
    config.addinivalue_line("markers", "rust_client: needs the program of rust/, AUND_AGUI_RUST")
    config.addinivalue_line("markers", "slow: waits for half a minute or longer, whatever the store")
    config.addinivalue_line("markers", "smoke: the tests of the quick run")


@pytest.fixture(scope="session")
def server():
    """One for all tests: each has agents and threads of its own."""
    with tempfile.TemporaryDirectory(prefix="aund-", ignore_cleanup_errors=True) as name:
        server = AguiServer(Path(name) / "server", MANY_AGENTS).start()
        yield server
        server.stop()


@pytest.fixture
def person(server):
    return Person(server, "alice")


@pytest.fixture
def other(server):
    """Another agent of the same server."""
    return Person(server, "mallory")


@pytest.fixture(scope="session")
def front_ends():
    """A process per version, for all tests of this worker."""
    started = {}

    def of(version):
        if version not in started:
            started[version] = FrontEnd(version)
        return started[version]

    yield of
    for front_end in started.values():
        front_end.end()


@pytest.fixture(params=[NEW, OLD])
def front_end(front_ends, request):
    """The clients of both generations; what an earlier test has left on the console is not of this one."""
    front_end = front_ends(request.param)
    front_end.take_said()
    return front_end


@pytest.fixture
def new_client(front_ends):
    front_end = front_ends(NEW)
    front_end.take_said()
    return front_end


@pytest.fixture
def old_client(front_ends):
    front_end = front_ends(OLD)
    front_end.take_said()
    return front_end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where a test fails, the end of the server's log tells why."""
    report = yield
    server = item.funcargs.get("server")
    if report.when == "call" and report.failed and server is not None:
        for path in sorted(server.folder.rglob("*.log")):
            report.sections.append((path.name, "\n".join(path.read_text(errors="replace").splitlines()[-60:])))
    return report
