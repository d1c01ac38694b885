"""Processes that are killed, paused, slow, restarted one by one, or gone for a while."""

import asyncio
import json
import signal

from aund import samples
from load import Load, Person
from place import CALL_SECONDS, GATEWAYS, SERVICES, until
from wire import Refused, opened

KILL_ROUNDS = 2
PAUSE_SECONDS = 10
SLOW_TURNS = 12
# Gateways share a port: whoever asks so often has met both of them.
ASKED = 12
# Of a slow process: how long it stands still, and how long it works.
STILL, AWAKE = 0.45, 0.05
TOO_LATE = -32004


def test_kill_9_of_every_process(place):
    async def test():
        async with Load(place, "kill -9") as load:
            names = list(SERVICES + GATEWAYS) * KILL_ROUNDS
            place.chance.shuffle(names)
            for name in names:
                await load.goes_on()
                await asyncio.sleep(place.chance.uniform(0, 0.5))
                before = place.pid(name)
                place.signal(name, signal.SIGKILL)
                await place.restarted(name, before)
                load.did.append(f"{name} healed in {await place.heal()} s")
            await load.goes_on()

    place.run(test())


def test_a_pause_of_ten_seconds_of_every_kind(place):
    async def test():
        async with Load(place, f"paused for {PAUSE_SECONDS} s") as load:
            for name in ("ca1", "auth1", "agent1", "message1", "gateway1"):
                await load.goes_on()
                before = place.pid(name)
                place.signal(name, signal.SIGSTOP)
                # The pause is the fault.
                await asyncio.sleep(PAUSE_SECONDS)
                place.signal(name, signal.SIGCONT)
                load.did.append(f"{name} healed in {await place.heal()} s")
                await load.goes_on()
                assert place.pid(name) == before, f"{name} did not live through its pause"

    place.run(test())


def test_a_slow_service_answers_in_time_or_not_at_all(place):
    async def test():
        async with Load(place, "message answers slowly") as load:
            await load.goes_on()
            most = 0
            for still in [STILL] * SLOW_TURNS + [CALL_SECONDS + 1]:
                most = max(most, await stumble(place, still))
            load.did.append(f"{most} calls waited at most, healed in {await place.heal()} s")
            await load.goes_on()
            # Everybody who waits is somebody who called and was not told otherwise.
            callers = len(load.writing) * 2 + len(load.reading)
            assert most <= callers, f"{most} calls waited in the gateways, and there were {callers} callers"
            assert load.refusals[TOO_LATE], "no call was too late: this proves nothing"
            assert not load.ended["calls without an answer"], f"{load}"
        await until("nothing waited any more", lambda: pending(place) == 0)

    place.run(test())


async def stumble(place, still):
    """Both instances stand still and go on; answers with how many calls waited."""
    for name in ("message1", "message2"):
        place.signal(name, signal.SIGSTOP)
    await asyncio.sleep(still)
    waiting = await asyncio.to_thread(pending, place)
    for name in ("message1", "message2"):
        place.signal(name, signal.SIGCONT)
    await asyncio.sleep(AWAKE)
    return waiting


def pending(place):
    """Calls under way in all gateways."""
    found = (samples(place.ask(name, "/metrics") or "", "aund_mesh_pending") for name in GATEWAYS)
    return int(sum(value for rows in found for _, value in rows))


def test_a_rolling_restart_fails_nothing_that_may_not_be_asked_again(place):
    async def test():
        async with Load(place, "rolling restart") as load:
            for name in SERVICES:
                await load.goes_on()
                before = place.pid(name)
                place.signal(name, signal.SIGTERM)
                await place.restarted(name, before)
                load.did.append(f"{name} back in {await place.heal()} s")
            for name, other in (GATEWAYS, GATEWAYS[::-1]):
                await restart_gateway(place, load, name, other)
            await load.goes_on()
            for what in ("calls cut off", "calls without an answer"):
                assert not load.ended[what], f"{load.ended[what]} {what}"

    place.run(test())


async def restart_gateway(place, load, name, other):
    """Drains one gateway: whoever was there comes back on the other one."""
    await load.goes_on()
    await load.everybody()
    leaving, before = await asyncio.to_thread(sessions, place, name), place.pid(name)
    load.closes.clear()
    load.closed_at.clear()
    place.hold(name)
    place.signal(name, signal.SIGTERM)
    everybody = len(load.people)
    await until(f"all were on {other}", lambda: sessions(place, other) == everybody)
    await load.goes_on()
    assert load.closes == {1012: leaving}, f"{leaving} sessions on {name} were closed with {dict(load.closes)}"
    place.release(name)
    await place.restarted(name, before)
    window = max(load.closed_at) - min(load.closed_at) if leaving else 0
    words = f"{name} sent {leaving} of {everybody} away over {window:.1f} s"
    load.did.append(f"{words}, back in {await place.heal()} s")


def sessions(place, name):
    metrics = place.ask(name, "/metrics") or ""
    return next((int(line.split()[1]) for line in metrics.splitlines() if line.startswith("aund_sessions ")), 0)


# The processes of a namespace, and the tags it takes along.
NAMESPACES = {
    "message": (("message1", "message2"), {"ns_message"}),
    "agent": (("agent1",), {"agent_md"}),
    "auth": (("auth1",), {"ns_auth"}),
    "ca": (("ca1",), {"ns_auth", "pki_http", "client_signature"}),
}


def test_a_namespace_that_is_down_says_so_and_returns(place):
    async def test():
        tags = await until("all gateways agreed", lambda: capabilities(place))
        assert set().union(*(lost for _, lost in NAMESPACES.values())) <= tags
        async with Load(place, "down for a while") as load:
            for namespace, (names, lost) in NAMESPACES.items():
                await load.goes_on()
                before = {name: place.pid(name) for name in names}
                for name in names:
                    place.hold(name)
                    place.signal(name, signal.SIGKILL)
                await until(f"the tags of {namespace} were gone", lambda: capabilities(place) == tags - lost)
                for gateway in GATEWAYS:
                    health = await asyncio.to_thread(place.health, gateway)
                    assert health["services"][namespace] == "down", f"{gateway} says {health}"
                await refuses(place, load, namespace)
                newcomer = await arrive(place, load) if namespace == "message" else None
                for name in names:
                    place.release(name)
                    await place.restarted(name, before[name])
                healed = await place.heal()
                await until(f"the tags of {namespace} were back", lambda: capabilities(place) == tags)
                load.did.append(f"{namespace} lost {', '.join(sorted(lost))}, refused, and came back in {healed} s")
                if newcomer:
                    await hears(load, newcomer)
            await load.goes_on()

    place.run(test())


def capabilities(place):
    """The tags that are told, if all gateways tell the same; each of them is met sooner or later."""
    told = {frozenset(json.loads(place.server.get("/capabilities")[2])["features"]) for _ in range(ASKED)}
    return told.pop() if len(told) == 1 else None


async def refuses(place, load, namespace):
    """Its methods answer 5003 and that it is worth asking again."""
    person = load.people[load.senders[0]]
    if namespace == "agent":
        status, _, body = await asyncio.to_thread(place.server.get, "/agent.md", load.senders[0])
        assert status == 503, f"GET /agent.md answered {status} {body[:200]}"
        return
    try:
        if namespace == "message":
            await person.line.call("message.query_online", aids=[load.senders[0]])
        else:
            async with opened(place.server) as wire:
                await wire.call("auth.create_aid", aid=f"nobody.{place.server.issuer}", public_key="", curve="P-256")
        raise AssertionError(f"{namespace} is down and answered")
    except Refused as refusal:
        assert (refusal.code, refusal.retryable) == (5003, True), f"{namespace} is down and answered {refusal}"


async def arrive(place, load):
    """A device nobody has seen before, which connects while nobody can remember it."""
    aid = load.receivers[0]
    heard = []
    person = Person(load, aid, "watch", lambda: lambda method, params: heard.append(params))
    load.staying.append(asyncio.create_task(person.stay()))
    await asyncio.wait_for(person.here.wait(), CALL_SECONDS * 2)
    return person, heard


async def hears(load, newcomer):
    """It gets what is sent from now on, like every other device."""
    person, heard = newcomer
    await person.here.wait()
    await load.goes_on()
    await until("the new device heard of a message", lambda: heard)
