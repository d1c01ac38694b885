"""The fault suite uses the server of the SDK suite and the agents of the crash suite."""

import sys
from pathlib import Path

import pytest

for suite in ("sdk", "crash"):
    sys.path.insert(0, str(Path(__file__).parents[1] / suite))

from cluster import Cluster  # noqa: E402, it needs the path


class SharedCluster:
    """One server for all tests, as long as they pass: a server that failed once proves nothing about the next fault."""

    def __init__(self):
        self.cluster = None

    def open(self):
        if self.cluster is None:
            self.cluster = Cluster()
        return self.cluster

    def close(self):
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            cluster.close()


@pytest.fixture(scope="session")
def shared_cluster():
    shared = SharedCluster()
    yield shared
    shared.close()


@pytest.fixture
def cluster(shared_cluster, request):
    yield shared_cluster.open()
    if getattr(request.node, "went_wrong", True):
        shared_cluster.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.went_wrong = report.failed
