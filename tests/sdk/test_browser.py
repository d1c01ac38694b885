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
def browser(folder, server, page):
    # Outside the folder of the test: Chromium's databases have files that look like logs.
    with tempfile.TemporaryDirectory(prefix="aund-chromium-", ignore_cleanup_errors=True) as profile:
        browser = chromium(profile, folder / "chromium.log", server, page.url(server))
        yield browser
        end(browser)


def test_a_page_registers_logs_in_sends_and_hears(server, page, browser):
    reports = page.steps(browser, SECONDS)

    failed = [f"{report['step']}: {report['error']}" for report in reports if report["error"]]
    assert not failed, "\n".join(failed)
    # What the page says is what the server saw.
    assert server.calls("auth.create_aid", code=0) == 2
    assert server.calls("message.send", code=0) == 2
    assert preflights(server) >= 2, "one for agent.md, one for /rpc"


def preflights(server):
    return sum(count for labels, count in samples(server.metrics(), "aund_http_responses_total") if labels["route"] == "preflight")
