"""An agent of an unmodified SDK hires another one whose tasks runs work on: within a domain, and in another one."""

import json

import pytest
from agents import Agent
from aund import Aund, eventually

pytestmark = [pytest.mark.only("0.5.25"), pytest.mark.timeout(600)]


@pytest.fixture
def hiring(folder, version):
    """Alice, and the AID of the agent that she hires: it was registered by the same SDK, and is not connected."""
    server = Aund(folder / "server")
    server.work_on_tasks_of(f"worker.{server.issuer}")
    server.start()
    yield from alice_and_worker(folder, version, server, server)
    server.stop()


@pytest.fixture
def hiring_elsewhere(folder, version, one_at_a_time):
    """The same, where the one that is hired is of another domain."""
    here, there = (Aund(folder / name, issuer=f"{name}.test") for name in ("here", "there"))
    here.add_peer(there)
    there.add_peer(here)
    there.work_on_tasks_of(f"worker.{there.issuer}")
    for server in (here, there):
        server.start()
    here.trust(there)
    there.trust(here)
    yield from alice_and_worker(folder, version, here, there)
    for server in (here, there):
        server.stop()


def alice_and_worker(folder, version, here, there):
    worker = Agent(there, version, f"worker.{there.issuer}", folder / "worker")
    worker.register()
    worker.end()
    alice = Agent(here, version, f"alice.{here.issuer}", folder / "alice")
    alice.register()
    alice.ready()
    yield alice, worker.aid
    alice.end()


def create(alice, worker, words):
    work = {"type": "text", "content": words}
    return alice.call(method="task.create", params={"to": worker, "input": work})["task_id"]


def get(alice, task):
    return alice.call(method="task.get", params={"task_id": task})


def heard(alice, task):
    """Which statuses of a task the client was told, in order."""
    frames = [json.loads(frame) for frame in alice.frames(holding='"event/task.')["heard"]]
    told = [frame["params"] for frame in frames if frame.get("params", {}).get("task_id") == task]
    return list(dict.fromkeys(one["status"] for one in told))


def becomes(alice, task, status):
    eventually(f"{task} is {status}", lambda: get(alice, task)["status"] == status, seconds=60)
    eventually(f"{task} was told to be {status}", lambda: status in heard(alice, task), seconds=60)
    return get(alice, task)


def hires(alice, worker):
    asked, unwanted = create(alice, worker, "/ask"), create(alice, worker, "/slow")
    question = becomes(alice, asked, "input_required")["messages"][-1]
    assert question["kind"] == "prompt" and question["from"] == worker, question
    assert question["body"]["content"].startswith("May the example go on?"), question
    answer = {"type": "text", "content": "yes"}
    alice.call(method="task.send_input", params={"task_id": asked, "input": answer})
    [artifact] = becomes(alice, asked, "completed")["artifacts"]
    assert artifact["content"] == "approved\nYou said: /ask", artifact
    assert heard(alice, asked) == ["working", "input_required", "completed"]

    becomes(alice, unwanted, "working")
    alice.call(method="task.cancel", params={"task_id": unwanted})
    assert get(alice, unwanted)["status"] == "canceled"


def test_an_agent_hires_one_whose_tasks_runs_work_on(hiring):
    hires(*hiring)


def test_an_agent_hires_one_of_another_domain(hiring_elsewhere):
    hires(*hiring_elsewhere)
