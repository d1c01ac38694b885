"""Who may call, how much, from where, and what is answered beside runs."""

import os
import re
import subprocess
import uuid
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from api import BASE, JSON, LENIENT, STREAM, STRICT, as_bytes, ended, new_input
from aund import ROOT, binary

UNKNOWN = "9a1c3f52-6f0e-4c1e-9d2b-5f0a7c3e8b11"
ROUTES = [
    ("POST", STRICT),
    ("POST", LENIENT),
    ("POST", f"{STRICT}/{UNKNOWN}/cancel?runId=r"),
    ("GET", f"{STRICT}/{UNKNOWN}/events"),
    ("GET", f"{BASE}/history"),
    ("POST", f"{BASE}/attachments"),
    ("GET", f"{BASE}/attachments/signed-url?bucket=agent-inputs&path=x"),
    ("GET", f"{BASE}/profile"),
    ("PUT", f"{BASE}/profile"),
]
CALLS = pytest.mark.parametrize("verb, path", ROUTES)
FRONT_END = "https://front.example"


def refused(answer, status, detail=None):
    """Every failure has the same body, whoever refuses."""
    assert answer.status == status, answer.body
    assert answer.header("Content-Type").startswith(JSON)
    assert set(answer.json) >= {"detail", "code", "traceId"}
    assert re.fullmatch("[0-9a-f]{32}", answer.json["traceId"])
    if detail:
        assert answer.json["detail"] == detail


@pytest.mark.smoke
@CALLS
def test_who_has_no_token_learns_nothing_else(person, verb, path):
    wrong = b"{" if verb != "GET" else None
    for headers in [
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer nobody's"},
        {"Authorization": f"Bearer {person.token.swapcase()}"},
        {"Authorization": f"Basic {person.token}"},
        {"Authorization": person.token},
    ]:
        refused(person.call(verb, path, wrong, headers=headers), 401, "Not authenticated")
    refused(person.call(verb, path, wrong, token=""), 401, "Not authenticated")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_may_be_in_any_case(person, scheme):
    answer = person.call("GET", f"{BASE}/history", headers={"Authorization": f"{scheme} {person.token}"})
    assert answer.status == 200


@pytest.mark.parametrize("route", [STRICT, LENIENT])
def test_a_body_above_one_mebibyte_is_refused_before_it_is_understood(person, route):
    body = as_bytes(new_input(state={"notes": ""}))
    enough = b" " * ((1 << 20) - len(body))
    refused(person.post(body + enough, route), 422, "RunAgentInput payload exceeds size limit")
    try:
        answer = person.post(body + enough + b" ", route)
    except (BrokenPipeError, ConnectionResetError):
        return  # It has hung up on somebody who was still talking.
    refused(answer, 413)


@CALLS
def test_a_page_of_any_origin_may_ask(person, verb, path):
    asks = {"Origin": FRONT_END, "Access-Control-Request-Method": verb}
    asks["Access-Control-Request-Headers"] = "authorization,content-type,last-event-id"
    answer = person.call("OPTIONS", path, headers=asks, token="")
    assert answer.status in (200, 204), answer.body
    assert answer.header("Access-Control-Allow-Origin") in ("*", FRONT_END)
    assert answer.header("Access-Control-Allow-Credentials") is None, "nothing depends on cookies"
    allowed = {name.strip().lower() for name in answer.header("Access-Control-Allow-Headers").split(",")}
    assert "authorization" in allowed, "the star does not stand for it"
    assert "*" in allowed or allowed >= {"content-type", "last-event-id"}
    if verb != "POST":  # It needs no permission.
        assert verb in answer.header("Access-Control-Allow-Methods")


def test_a_page_may_read_answers_and_refusals(person):
    origin = {"Origin": FRONT_END}
    answers = [
        person.post(new_input(), headers=origin),
        person.post(new_input(), accept=STREAM, headers=origin),
        person.post({}, headers=origin),
        person.call("GET", f"{BASE}/history", headers=origin, token=""),
        person.call("GET", f"{BASE}/history", headers=origin),
        person.call("GET", f"{BASE}/nothing", headers=origin),
    ]
    assert [answer.status for answer in answers] == [202, 200, 422, 401, 200, 404]
    assert {answer.header("Access-Control-Allow-Origin") for answer in answers} <= {"*", FRONT_END}
    assert answers[1].header("Content-Type") == STREAM
    assert "no-" in answers[1].header("Cache-Control"), "no proxy keeps a stream"


@pytest.mark.parametrize("accept", [JSON, "*/*", None, "application/json, text/event-stream;q=0"])
def test_the_strict_route_answers_json_where_nobody_asks_for_a_stream(person, accept):
    answer = person.post(new_input(), headers={"Accept": accept or ""})
    assert (answer.status, answer.header("Content-Type")) == (202, JSON)


@pytest.mark.parametrize("accept", [JSON, "*/*", STREAM, None])
def test_the_other_route_always_streams(person, accept):
    answer = person.post(new_input(), LENIENT, headers={"Accept": accept or ""})
    assert (answer.status, answer.header("Content-Type")) == (200, STREAM)


def test_cancelling_what_there_is_not_is_not_found(person):
    input = new_input("Hello")
    person.stream(input)
    refused(person.cancel(input["threadId"], "another"), 404, "run not found")
    refused(person.cancel(str(uuid.uuid4()), input["runId"]), 404)
    answer = person.cancel(input["threadId"], input["runId"])
    assert (answer.status, answer.json["accepted"]) == (202, True), "what has ended may be cancelled, too"
    assert person.events(input["threadId"], input["runId"])[-1]["event"] == "RUN_FINISHED"


def test_history_is_the_newest_day_of_the_newest_thread(person):
    assert person.history() == {"scope": "history_day", "threadId": None, "day": None, "hasMore": False, "messages": []}
    first, second = new_input("one /ui"), new_input("two")
    person.stream(first)
    person.stream(second)
    assert person.history()["threadId"] == second["threadId"]
    day = person.history(first["threadId"])
    assert (day["scope"], day["threadId"], day["hasMore"]) == ("history_day", first["threadId"], False)
    question, answer = day["messages"]
    assert set(question) == {"id", "seq", "role", "content", "attachments", "timestamp"}
    assert (question["id"], question["seq"], question["role"]) == (first["messages"][0]["id"], 1, "user")
    assert (question["content"], question["attachments"]) == ("one /ui", [])
    assert set(answer) == {"id", "seq", "role", "content", "ui_schema", "timestamp"}
    assert (answer["seq"], answer["role"], answer["content"]) == (2, "assistant", "You said: one /ui")
    assert person.history(second["threadId"])["messages"][1]["ui_schema"] is None
    for message in day["messages"]:
        assert datetime.fromisoformat(message["timestamp"]).utcoffset() is not None


def test_history_counts_days_in_the_zone_of_the_profile(person):
    input = new_input("Hello")
    person.stream(input)
    # No two of these have the same date at the same time for the whole day.
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"):
        assert person.call("PUT", f"{BASE}/profile", {"timezone": zone}).status == 200
        assert person.call("GET", f"{BASE}/profile").json == {"timezone": zone}
        day = person.history(input["threadId"])
        said = datetime.fromisoformat(day["messages"][0]["timestamp"]).astimezone(ZoneInfo(zone))
        assert day["day"] == said.date().isoformat()
    assert person.history(input["threadId"], before=day["day"])["messages"] == []


def test_history_refuses_what_it_does_not_understand(person):
    for before in ("yesterday", "2026-13-01", "2026-3-1", "20260301"):
        refused(person.call("GET", f"{BASE}/history?before={before}"), 422, "invalid before")
    refused(person.call("GET", f"{BASE}/history?threadId={uuid.uuid4()}"), 404)


def test_a_zone_that_there_is_not_is_no_profile(person):
    for zone in ("Mars/Olympus_Mons", "", 7):
        answer = person.call("PUT", f"{BASE}/profile", {"timezone": zone})
        assert answer.status == 422, answer.body
    assert person.call("GET", f"{BASE}/profile").json["timezone"] in (None, "UTC")


def test_a_run_without_a_reader_ends_by_itself(person):
    input = new_input("nobody listens")
    accepted = person.post(input).json
    assert accepted["created"] is True
    assert ended(person, input["threadId"], 1) == ["You said: nobody listens"]


def test_the_token_that_the_command_prints_is_one(server, person, tmp_path):
    def aund(*words):
        done = subprocess.run(
            [binary(), *words, "--gateway", f"{server.address}:{server.port}", "--root", server.root, "--home", tmp_path, "--issuer", server.issuer],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    name = f"trent.{server.issuer}"
    aund("register", name)
    token = aund("agents", "token", name).strip()
    assert len(token.split()) == 1, "nothing else is printed"
    answer = person.call("GET", f"{BASE}/history", token=token)
    assert (answer.status, answer.json["threadId"]) == (200, None)
