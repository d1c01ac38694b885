"""kill -9 while agents register and log in: what was acknowledged is there afterwards, and nothing is there twice.

One data folder lives through all rounds. A round is: workers register and log in, the server is killed at a random
moment, it is started again, and every name of the round is looked at. AUND_CRASH_ROUNDS and AUND_CRASH_SEED steer it.
"""

import asyncio
import os
import random
import secrets
import tempfile
from dataclasses import dataclass, field

import websockets
from aund import Aund
from connection import Key, Refused, opened
from cryptography import x509

STORE = os.environ.get("AUND_TEST_STORE", "sqlite")
ROUNDS = int(os.environ.get("AUND_CRASH_ROUNDS", {"sqlite": "40"}.get(STORE, "20")))
SEED = int(os.environ.get("AUND_CRASH_SEED", secrets.randbelow(1_000_000)))
WORKERS = 6
LONGEST_SECONDS = 0.5
# More registrations come from one address here than a server accepts by default.
LIMITS = {"registrations_per_minute": 1_000_000, "connects_per_second": 100_000, "http_per_second": 100_000}
LOST = (OSError, EOFError, websockets.WebSocketException, asyncio.TimeoutError)


@dataclass
class Attempt:
    """One key that asked for a name, and what the server acknowledged before it died."""

    key: Key = field(default_factory=Key)
    refused: bool = False
    certificate: str | None = None
    access_tokens: list = field(default_factory=list)
    refresh_token: str | None = None


def test_what_was_acknowledged_survives_kill_9():
    print(f"\nseed {SEED}, {ROUNDS} rounds, store {STORE}", flush=True)
    with tempfile.TemporaryDirectory(prefix="aund-") as folder:
        server = Aund(folder, limits=LIMITS)
        try:
            asyncio.run(rounds(server, random.Random(SEED)))
        finally:
            server.stop()


async def rounds(server, chance):
    everything = {}
    unanswered = 0
    server.start()
    for number in range(1, ROUNDS + 1):
        names = await one_round(server, chance, number)
        everything |= {aid: winner(attempts).certificate for aid, attempts in names.items() if winner(attempts)}
        unanswered += sum(unanswered_attempt(attempt) for attempts in names.values() for attempt in attempts)
        if number % 10 == 0 or number == ROUNDS:
            print(f"round {number}: {len(everything)} names acknowledged, {unanswered} attempts cut off", flush=True)

    assert everything, "no registration was acknowledged in any round: the rounds are too short to prove anything"
    for aid, certificate in everything.items():
        assert load(server.certificate(aid)) == load(certificate), f"{aid} changed in a later round"
    serials = [load(certificate).serial_number for certificate in everything.values()]
    assert len(set(serials)) == len(serials), "a serial number was given twice"


async def one_round(server, chance, number):
    names = {}
    seconds = chance.uniform(0.02, LONGEST_SECONDS)
    workers = [asyncio.create_task(work(server, names, f"r{number}w{index}")) for index in range(WORKERS)]
    await asyncio.sleep(seconds)
    server.kill()
    await asyncio.gather(*workers)

    server.start()
    for aid, attempts in names.items():
        await examine(server, aid, attempts)
    return names


async def work(server, names, prefix):
    """Takes one name after another until the server is gone; every third name is asked for by two keys."""
    count = 0
    while True:
        aid = f"{prefix}n{count}.{server.issuer}"
        rivals = names.setdefault(aid, [Attempt() for _ in range(2 if count % 3 == 0 else 1)])
        lost = await asyncio.gather(*(take(server, aid, attempt) for attempt in rivals))
        if any(lost):
            return
        count += 1


async def take(server, aid, attempt):
    """Registers, logs in, refreshes and connects; true when the server went away meanwhile."""
    try:
        async with asyncio.timeout(10), opened(server) as connection:
            try:
                attempt.certificate = await connection.register(aid, attempt.key)
            except Refused as refusal:
                assert refusal.code == 4090, f"{aid} was refused with {refusal}"
                attempt.refused = True
                return False
            tokens = await connection.login(aid, attempt.key, attempt.certificate)
            attempt.access_tokens.append(tokens["access_token"])
            # From the moment it is sent until it is answered, nobody can say which refresh token is the good one.
            refreshed = await connection.refresh(tokens["refresh_token"])
            attempt.access_tokens.append(refreshed["access_token"])
            attempt.refresh_token = refreshed["refresh_token"]
            await connection.connect(refreshed["access_token"])
        return False
    except LOST:
        return True


async def examine(server, aid, attempts):
    """Compares the restarted server with what it acknowledged about one name."""
    acknowledged = [attempt for attempt in attempts if attempt.certificate]
    assert len(acknowledged) <= 1, f"{aid} was given to two keys"
    shown = server.certificate(aid)

    if acknowledged:
        assert shown is not None, f"{aid} was acknowledged and is gone"
        assert load(shown) == load(acknowledged[0].certificate), f"{aid} has another certificate than acknowledged"
        await still_works(server, aid, acknowledged[0])
    owner = await settle(server, aid, attempts, shown)

    async with opened(server) as connection:
        try:
            await connection.register(aid, Key())
            raise AssertionError(f"{aid} was given to a second key")
        except Refused as refusal:
            assert refusal.code == 4090, f"a second key for {aid} was refused with {refusal}"
        assert load(await connection.register(aid, owner.key)) == load(server.certificate(aid)), f"{aid} exists twice"


async def still_works(server, aid, attempt):
    """Every token that was handed out opens a session, and the last refresh token refreshes."""
    for token in attempt.access_tokens:
        async with opened(server) as connection:
            assert (await connection.connect(token))["status"] == "ok", f"a token of {aid} is no longer accepted"
    async with opened(server) as connection:
        if attempt.refresh_token:
            assert (await connection.refresh(attempt.refresh_token))["success"] is True, f"the refresh token of {aid} is lost"
        assert (await connection.login(aid, attempt.key, attempt.certificate))["access_token"]


async def settle(server, aid, attempts, shown):
    """Finds whose name it is; a key without an answer asks again, as the SDK does, and may well be the owner."""
    if shown is not None:
        owners = [attempt for attempt in attempts if holds(shown, attempt.key)]
        assert len(owners) == 1, f"{aid} has a certificate that none of its {len(attempts)} keys asked for"
        assert not owners[0].refused, f"{aid} belongs to a key that was refused"
        return owners[0]
    async with opened(server) as connection:
        await connection.register(aid, attempts[0].key)
    return attempts[0]


def holds(certificate, key):
    return load(certificate).public_key() == key.private.public_key()


def winner(attempts):
    return next((attempt for attempt in attempts if attempt.certificate), None)


def unanswered_attempt(attempt):
    return not attempt.certificate and not attempt.refused


def load(pem):
    return x509.load_pem_x509_certificate(pem.encode())
