"""Unmodified public SDKs against the real server, from a cold start to everything that can go wrong with a session.

The long waits are the SDK's own back-off, not ours. They come first, so that workers in parallel start them early.
"""

import hashlib
import sqlite3
import time
from contextlib import contextmanager

import pytest
from agents import Failed, numbers
from aund import eventually, samples, split
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

# A public connect option of every version: come back within seconds instead of the default 1 to 64 and more.
SOON = {"initial_delay": 1.0, "max_delay": 2.0}


@pytest.mark.slow
def test_a_client_comes_back_after_a_planned_restart(server, agent):
    alice = registered(agent)
    alice.ready()

    assert server.terminate() == 0
    comes_back(alice, server, seconds=120)

    assert disconnects(alice) == [], "a planned restart is not a kick"
    assert server.calls("auth.aid_login1") == 0, "the token outlived the restart"


@pytest.mark.slow
@pytest.mark.only("0.5.4")
def test_a_client_that_asks_for_health_first_comes_back_when_it_is_good(server, agent):
    if split() or server.store != "sqlite:":
        pytest.skip("a store is held by its file, and the process of auth knows of it")
    alice = registered(agent)
    # So much later the client tries again that the store is held by then.
    alice.ready(retry={"initial_delay": 12.0, "max_delay": 12.0})

    server.kill()
    alice.lose(seconds=30)
    server.start()
    with held(server.data / "auth.db"):
        eventually("nobody can log in", lambda: server.get("/health")[0] == 503)
        before = turned_away(server)
        eventually("the client asks for health", lambda: turned_away(server) > before, seconds=90)
        assert server.get("/health/live")[0] == 200
        assert server.calls("auth.connect") == 0
    answered_again(alice, seconds=120)


@pytest.mark.slow
@pytest.mark.limits(ping_interval_ms=2000, ping_timeout_ms=5000)
def test_a_quiet_session_stays_alive(server, agent, version):
    alice = registered(agent).ready()

    if numbers(version) >= (0, 5, 10):
        eventually("a pong to the SDK's ping", lambda: alice.websocket_latency()["seconds"] > 0, seconds=60, every=1)
    elif version != "0.4.13":
        eventually("a heartbeat of the SDK", lambda: server.calls("meta.ping") >= 1, seconds=60, every=1)
    else:
        time.sleep(12)  # 0.4.13 never sends its heartbeat; only the pings of the server show that it lives.

    assert alice.look() == {"state": "ready", "events": []}


@pytest.mark.smoke
def test_a_cold_start_ends_in_a_session(server, agent):
    alice = agent()
    alice.register()
    alice.ready()

    pong = alice.ping()
    assert pong["pong"] is True
    assert isinstance(pong["timestamp"], (int, float))
    assert alice.call(method="meta.status", params={})["aid"] == alice.aid
    assert server.calls("auth.create_aid") == 1


@pytest.mark.shared
@pytest.mark.smoke
def test_the_certificate_is_the_one_the_server_shows(server, agent):
    alice = agent()
    mine = load(alice.register()["certificate"])

    assert mine == load(server.certificate(alice.aid))
    assert mine.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value == alice.aid


@pytest.mark.smoke
def test_a_second_start_makes_no_login(server, agent):
    first = registered(agent).ready()
    first.close()
    first.end()
    before = {method: server.calls(method) for method in ("auth.create_aid", "auth.aid_login1", "auth.aid_login2")}

    again = agent().ready()

    assert again.ping()["pong"] is True
    assert {method: server.calls(method) for method in before} == before


def test_a_second_start_after_a_restart_of_the_server_makes_no_login(server, agent):
    first = registered(agent).ready()
    first.close()
    first.end()
    server.terminate()
    server.start()

    again = agent().ready()

    assert again.ping()["pong"] is True
    assert server.calls("auth.create_aid") + server.calls("auth.aid_login1") == 0


@pytest.mark.smoke
def test_a_client_comes_back_after_a_crash_of_the_server(server, agent):
    alice = registered(agent)
    alice.ready(retry=SOON)

    server.kill()
    comes_back(alice, server, seconds=60)

    assert server.calls("auth.aid_login1") == 0, "the token outlived the crash"


def test_a_bad_access_token_is_refreshed_on_the_same_socket(server, agent):
    alice = registered(agent)
    alice.ready(retry=SOON)
    alice.spoil(refresh=False)

    server.kill()
    comes_back(alice, server, seconds=60)

    assert server.calls("auth.connect", code=4001) >= 1
    assert server.calls("auth.refresh_token") == 1
    assert server.calls("auth.aid_login1") == 0


# Before 0.4 the SDK logs in with the cached bad token again and gives up, whatever the server answers.
@pytest.mark.sdk(since="0.4.13")
def test_two_bad_tokens_lead_to_a_new_login(server, agent):
    alice = registered(agent)
    alice.ready(retry=SOON)
    alice.spoil(refresh=True)

    server.kill()
    comes_back(alice, server, seconds=60)

    assert server.calls("auth.refresh_token") == 1
    assert server.calls("auth.aid_login2") == 1


@pytest.mark.shared
def test_a_second_process_replaces_the_first(server, agent):
    first = registered(agent)
    first.ready(retry=SOON)

    second = agent().ready(retry=SOON)
    first.wait(state="failed", seconds=20)

    assert [event["code"] for event in disconnects(first)] == [4009]
    assert second.ping()["pong"] is True
    assert second.look()["state"] == "ready", "the newcomer keeps the slot"


def test_a_revoked_agent_is_disconnected_and_stays_so(server, agent):
    alice = registered(agent)
    alice.ready(retry=SOON)

    revoked = server.command("certs", "revoke", alice.aid)
    assert revoked.returncode == 0, revoked.stderr
    alice.wait(state="failed", seconds=20)

    assert [event["code"] for event in disconnects(alice)] == [4001]
    assert alice.ocsp_status()["status"] == "revoked", "whichever hash of the issuer's key the SDK computes"
    again = agent()
    with pytest.raises(Failed):
        again.connect(retry=None)
    assert again.look()["state"] != "ready"


@pytest.mark.shared
def test_a_name_of_another_key_is_refused(server, agent):
    registered(agent)
    other = agent(home="elsewhere")

    with pytest.raises(Failed):
        other.register()
    with pytest.raises(Failed):
        other.connect(retry=None)


# Earlier versions have the methods but no way to make their parameters.
@pytest.mark.shared
@pytest.mark.sdk(since="0.4.13")
def test_a_certificate_is_renewed(server, agent):
    alice = agent()
    old = load(alice.register()["certificate"])

    renewed = alice.renew()
    new = load(renewed["certificate"])

    assert new.serial_number != old.serial_number
    assert public_key(new) == public_key(old)
    assert load(server.certificate(alice.aid)) == new
    assert renewed["fingerprint"] == fingerprint(new)
    assert historic(server, alice.aid, old) == old, "signatures made with the old certificate can still be checked"
    assert alice.ready().ping()["pong"] is True


@pytest.mark.shared
@pytest.mark.sdk(since="0.4.13")
def test_a_key_is_replaced(server, agent):
    alice = agent()
    old = load(alice.register()["certificate"])

    new = load(alice.rekey()["certificate"])

    assert public_key(new) != public_key(old)
    assert load(server.certificate(alice.aid)) == new
    assert historic(server, alice.aid, old) == old
    assert alice.ready().ping()["pong"] is True


@pytest.mark.shared
@pytest.mark.sdk(since="0.5.25")
@pytest.mark.smoke
def test_registering_publishes_agent_md(server, agent):
    alice = agent()
    alice.register()

    status, headers, body = server.get("/agent.md", host=alice.aid, headers={"X-AUN-Signature-Format": "multi-v1"})
    assert status == 200
    assert headers_of(headers)["etag"] == f'"{hashlib.sha256(body).hexdigest()}"'
    assert headers_of(headers)["content-type"] == "text/markdown; charset=utf-8"
    assert f'aid: "{alice.aid}"' in body.decode()
    assert "<!-- AUN-SIGNATURE" in body.decode()

    found = alice.download(aid=alice.aid)
    assert found["content"] == body.decode()
    assert found["verification"]["status"] == "verified"


@pytest.mark.shared
def test_agent_md_is_uploaded_and_read_by_another(server, agent):
    alice = registered(agent)
    alice.ready()
    sent = alice.upload(content=document(alice.aid))

    bob = agent(name="bobby", home="elsewhere")
    bob.register()
    read = bob.download(aid=alice.aid)["content"]

    assert document(alice.aid) in read
    _, _, body = server.get("/agent.md", host=alice.aid, headers={"X-AUN-Signature-Format": "multi-v1"})
    assert sent["etag"] == f'"{hashlib.sha256(body).hexdigest()}"'
    assert read == body.decode()


@pytest.mark.shared
@pytest.mark.sdk(since="0.4.13")
def test_another_agent_finds_and_verifies_a_certificate(server, agent):
    alice = agent()
    mine = alice.register()["certificate"]
    bob = agent(name="bobby", home="elsewhere")
    bob.register()

    assert load(bob.resolve(aid=alice.aid)["certificate"]) == load(mine)
    assert alice.diagnose()["status"] == "ready"


@pytest.mark.shared
def test_revocation_is_checked_and_found_in_order(server, agent, version):
    alice = registered(agent).ready()

    said = alice.log.read_text(errors="replace")
    assert "CRL check unavailable" not in said
    # Until 0.5.4 the SDK expects another hash of the issuer's key than RFC 6960, warns, and goes on.
    if numbers(version) >= (0, 5, 10):
        assert "OCSP check unavailable" not in said


@pytest.mark.shared
@pytest.mark.sdk(before="0.4")
def test_the_signed_list_of_roots_is_accepted(server, agent):
    alice = registered(agent).ready()
    root = x509.load_pem_x509_certificate(server.root.read_bytes()).fingerprint(hashes.SHA256()).hex()

    trust = alice.trust(issuer=server.issuer)

    assert trust["listed"] == [root]
    assert trust["told"] == [root]


@pytest.mark.shared
@pytest.mark.sdk(since="0.4.13")
def test_a_notification_reaches_the_other_agent(server, agent):
    alice = registered(agent).ready()
    bob = agent(name="bobby", home="elsewhere")
    bob.register()
    bob.ready()

    alice.notify(method="event/app.greeting", params={"text": "hi"}, to=bob.aid)
    greeting = eventually("the greeting", lambda: [event["data"] for event in bob.look()["events"]])

    assert greeting[0]["text"] == "hi"


def comes_back(alice, server, seconds):
    """The server is gone and starts again on the same port; the client has to find that out by itself."""
    alice.lose(seconds=30)
    server.start()
    answered_again(alice, seconds)


def answered_again(alice, seconds):
    """Waits for an answer. Some SDKs reconnect twice at once and close one of the two themselves, so being ready is
    not yet the end of it."""
    deadline = time.monotonic() + seconds
    while True:
        alice.settle(states=["ready", "failed"], seconds=max(1, deadline - time.monotonic()))
        alice.recover()
        try:
            assert alice.ping()["pong"] is True
            return
        except Failed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextmanager
def held(file):
    """Keeps every writer out of a store."""
    store = sqlite3.connect(file, isolation_level=None, timeout=30)
    store.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        store.execute("ROLLBACK")
        store.close()


def turned_away(server):
    found = samples(server.metrics(), "aund_http_responses_total")
    return sum(count for labels, count in found if labels["route"] == "/health" and labels["status"] == "503")


def registered(agent):
    alice = agent()
    alice.register()
    return alice


def disconnects(agent):
    return [event["data"] for event in agent.look()["events"] if event["event"] == "gateway.disconnect"]


def load(pem):
    return x509.load_pem_x509_certificate(pem.encode())


def historic(server, aid, certificate):
    status, _, body = server.get(f"/pki/cert/{aid}?cert_fingerprint={fingerprint(certificate)}")
    assert status == 200
    return x509.load_pem_x509_certificate(body)


def fingerprint(certificate):
    return "sha256:" + certificate.fingerprint(hashes.SHA256()).hex()


def public_key(certificate):
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def headers_of(headers):
    return {name.lower(): value for name, value in headers.items()}


def document(aid):
    name = aid.split(".")[0]
    return (
        f'---\naid: "{aid}"\nname: "{name}"\ntype: "agent"\nversion: "1.0.1"\n'
        f'description: "a test about {name}"\n---\n\n# {name}\n'
    )
