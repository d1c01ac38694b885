"""The models of PyPI's ag-ui-protocol: what they write is accepted, in either spelling, and what is answered they can read."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from api import CHAT, LENIENT, STRICT, new_input
from aund import ROOT
from test_inputs import said_in, with_everything

pytestmark = pytest.mark.models
PYTHON = Path(os.environ.get("AUND_AGUI_PYTHON", ROOT / "target" / "tests" / "agui" / "bin" / "python"))


def models(**asked):
    ran = subprocess.run(
        [PYTHON, Path(__file__).with_name("models.py")], input=json.dumps(asked), capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("route", [STRICT, LENIENT])
@pytest.mark.parametrize("dumped", ["by_alias", "by_name", "without_none"])
def test_an_input_that_the_models_write_is_accepted(person, route, dumped):
    input = {**with_everything(), "protocolVersion": "1.0"}
    written = models(input=input)[dumped]
    assert ("thread_id" in written) == (dumped == "by_name")
    frames = person.stream(written, route)
    assert (said_in(frames), frames[-1]["event"]) == ("You said: Hello there", "RUN_FINISHED")
    assert frames[0]["data"]["parentRunId"] == "before"


def test_every_event_can_be_read_and_is_written_again_as_it_was(person):
    events = []
    for text in ("Hello /tool /calendar /ui", "/calendar bare", "/fail", "/ask"):
        events += [frame["data"] for frame in person.stream({**new_input(text), "protocolVersion": "1.0"})]
    types = {event["type"] for event in events}
    assert types >= {"TOOL_CALL_RESULT", "CUSTOM", "RUN_ERROR", "RUN_FINISHED", "STEP_FINISHED", "TEXT_MESSAGE_END"}
    assert models(events=events)["events"] == events


def test_an_answer_that_the_models_write_is_accepted(person):
    input = new_input("May you? /ask")
    [interrupt] = person.stream(input)[-1]["data"]["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    answer = {**new_input(threadId=input["threadId"]), "messages": [], "resume": resume, "forwardedProps": CHAT}
    written = models(input=answer)["by_name"]
    assert written["resume"][0]["interrupt_id"] == interrupt["id"]
    said = "".join(frame["data"].get("delta", "") for frame in person.stream(written))
    assert said == "approved\nYou said: May you? /ask"
