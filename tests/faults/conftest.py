"""The fault suite borrows the server of the SDK suite and the agents of the crash suite."""

import sys
from pathlib import Path

import pytest

for suite in ("sdk", "crash"):
    sys.path.insert(0, str(Path(__file__).parents[1] / suite))

from place import Place  # noqa: E402, it needs the path


class Places:
    """One server for all integration_tests, as long as they end well: what failed once proves nothing about the next fault."""

    def __init__(self):
        self.place = None

    def open(self):
        if self.place is None:
            self.place = Place()
        return self.place

    def close(self):
        place, self.place = self.place, None
        if place is not None:
            place.close()


@pytest.fixture(scope="session")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture
def place(places, request):
    yield places.open()
    if getattr(request.node, "went_wrong", True):
        places.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.went_wrong = report.failed
