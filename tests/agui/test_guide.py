"""The programs of docs/front-ends.md, as they are printed. What is typed there, the guides of the integration tests type."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from api import BASE, new_input
from aund import ROOT
from front_end import PACKAGES

pytestmark = pytest.mark.npm
GUIDES = [ROOT / "docs" / "front-ends.md"]


@pytest.fixture
def program(person):
    """Runs the program that imports this package, at the server of the tests."""
    guide = next(guide for guide in GUIDES if guide.exists()).read_text()
    programs = re.findall(r"^```js\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)

    def run(package, *words):
        [text] = [text for text in programs if f'from "{package}"' in text]
        assert (server := f"https://gateway.agents.localhost:20001{BASE}") in text
        # Packages are found beside a program, or above it.
        with tempfile.TemporaryDirectory(dir=PACKAGES, prefix="guide-") as folder:
            path = Path(folder) / "program.mjs"
            path.write_text(text.replace(server, person.url(BASE)))
            ran = subprocess.run(
                ["node", path, *words],
                capture_output=True,
                text=True,
                timeout=150,
                env={**os.environ, "TOKEN": person.token},
            )
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout

    return run


def test_the_front_end_of_the_guide_talks_and_answers(program):
    assert program("@ag-ui/client") == "You said: Hello\napproved\nYou said: May you? /ask\n"


def test_the_reader_of_the_guide_reads_a_run_to_its_end(program, person):
    input = new_input("Hello")
    assert person.post(input).status == 202
    assert program("eventsource", input["threadId"], input["runId"]) == "You said: Hello"
