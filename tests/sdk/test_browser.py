"""What a client in a browser needs: CORS with preflight, a socket that is opened with an Origin, and nothing that WebCrypto lacks."""

import tempfile

import pytest
from aund import samples
from browser import Page, chromium, end

SECONDS = 120


@pytest.fixture
def page():
    page = Page()
    yield page
    page.close()


@pytest.fixture
def opened(folder, server, page):
    """Opens a page of this name in a browser of its own."""
    # Outside the folder of the test: Chromium's databases have files that look like logs.
    with tempfile.TemporaryDirectory(prefix="aund-chromium-", ignore_cleanup_errors=True) as profile:
        browsers = []

        def open_page(name=""):
            browsers.append(chromium(profile, folder / "chromium.log", server, page.url(server, name)))
            return browsers[-1]

        yield open_page
        for browser in browsers:
            end(browser)


def test_a_page_registers_logs_in_sends_and_hears(server, page, opened):
    all_pass(page.steps(opened(), SECONDS))

    # What the page says is what the server saw.
    assert server.calls("auth.create_aid", code=0) == 2
    assert server.calls("message.send", code=0) == 2
    assert preflights(server) >= 2, "one for agent.md, one for /rpc"


def test_a_page_of_another_origin_reads_a_manifest_and_asks_for_consent(server, page, opened):
    all_pass(page.steps(opened("consent.html"), SECONDS))

    assert server.calls("agent.get", code=0) >= 2
    assert server.calls("h2a.grant", code=0) == 2
    assert preflights(server) >= 2, "one for the agent, one for the relations"


def all_pass(reports):
    failed = [f"{report['step']}: {report['error']}" for report in reports if report["error"]]
    assert not failed, "\n".join(failed)


def preflights(server):
    return sum(count for labels, count in samples(server.metrics(), "aund_http_responses_total") if labels["route"] == "preflight")
