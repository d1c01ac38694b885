"""Processes that are killed, paused, slow, restarted one by one, or gone for a while."""

import asyncio
import json
import signal

from aund import samples
from cluster import CALL_SECONDS, GATEWAYS, SERVICES, until
from connection import Refused, opened
from load import Device, Load

KILL_ROUNDS = 2
PAUSE_SECONDS = 10
SLOW_TURNS = 12
# Gateways share a port: whoever asks so often has asked both of them.
ASKED = 12
# Of a slow process: how long it stands still, and how long it works.
STILL, AWAKE = 0.45, 0.05
TOO_LATE = -32004


def test_kill_9_of_every_process(cluster):
    async def test():
        async with Load(cluster, "kill -9") as load:
            names = list(SERVICES + GATEWAYS) * KILL_ROUNDS
            cluster.chance.shuffle(names)
            for name in names:
                await load.goes_on()
                await asyncio.sleep(cluster.chance.uniform(0, 0.5))
                before = cluster.pid(name)
                cluster.signal(name, signal.SIGKILL)
                await cluster.restarted(name, before)
                load.did.append(f"{name} healed in {await cluster.heal()} s")
            await load.goes_on()

    cluster.run(test())


def test_a_pause_of_ten_seconds_of_every_kind(cluster):
    async def test():
        async with Load(cluster, f"paused for {PAUSE_SECONDS} s") as load:
            for name in ("ca1", "auth1", "agent1", "message1", "gateway1"):
                await load.goes_on()
                before = cluster.pid(name)
                cluster.signal(name, signal.SIGSTOP)
                # The pause is the fault.
                await asyncio.sleep(PAUSE_SECONDS)
                cluster.signal(name, signal.SIGCONT)
                load.did.append(f"{name} healed in {await cluster.heal()} s")
                await load.goes_on()
                assert cluster.pid(name) == before, f"{name} did not live through its pause"

    cluster.run(test())


def test_a_slow_service_answers_in_time_or_not_at_all(cluster):
    async def test():
        async with Load(cluster, "message answers slowly") as load:
            await load.goes_on()
            most = 0
            for still in [STILL] * SLOW_TURNS + [CALL_SECONDS + 1]:
                most = max(most, await stumble(cluster, still))
            load.did.append(f"{most} calls waited at most, healed in {await cluster.heal()} s")
            await load.goes_on()
            # Everybody who waits is somebody who called and was not told otherwise.
            callers = len(load.writing) * 2 + len(load.reading)
            assert most <= callers, f"{most} calls waited in the gateways, and there were {callers} callers"
            assert load.refusals[TOO_LATE], "no call was too late: this proves nothing"
            assert not load.ended["calls without an answer"], f"{load}"
        await until("nothing waited any more", lambda: pending(cluster) == 0)

    cluster.run(test())


async def stumble(cluster, still):
    """Both instances stand still and go on; answers with how many calls waited."""
    for name in ("message1", "message2"):
        cluster.signal(name, signal.SIGSTOP)
    await asyncio.sleep(still)
    waiting = await asyncio.to_thread(pending, cluster)
    for name in ("message1", "message2"):
        cluster.signal(name, signal.SIGCONT)
    await asyncio.sleep(AWAKE)
    return waiting


def pending(cluster):
    """Calls under way in all gateways."""
    found = (samples(cluster.ask(name, "/metrics") or "", "aund_mesh_pending") for name in GATEWAYS)
    return int(sum(value for rows in found for _, value in rows))


def test_a_rolling_restart_fails_nothing_that_may_not_be_asked_again(cluster):
    async def test():
        async with Load(cluster, "rolling restart") as load:
            for name in SERVICES:
                await load.goes_on()
                before = cluster.pid(name)
                cluster.signal(name, signal.SIGTERM)
                await cluster.restarted(name, before)
                load.did.append(f"{name} back in {await cluster.heal()} s")
            for name, other in (GATEWAYS, GATEWAYS[::-1]):
                await restart_gateway(cluster, load, name, other)
            await load.goes_on()
            for what in ("calls cut off", "calls without an answer"):
                assert not load.ended[what], f"{load.ended[what]} {what}"

    cluster.run(test())


async def restart_gateway(cluster, load, name, other):
    """Drains one gateway: its sessions come back on the other one."""
    await load.goes_on()
    await load.everybody()
    leaving, before = await asyncio.to_thread(sessions, cluster, name), cluster.pid(name)
    load.closes.clear()
    load.closed_at.clear()
    cluster.hold(name)
    cluster.signal(name, signal.SIGTERM)
    everybody = len(load.devices)
    await until(f"all were on {other}", lambda: sessions(cluster, other) == everybody)
    await load.goes_on()
    assert load.closes == {1012: leaving}, f"{leaving} sessions on {name} were closed with {dict(load.closes)}"
    cluster.release(name)
    await cluster.restarted(name, before)
    window = max(load.closed_at) - min(load.closed_at) if leaving else 0
    words = f"{name} sent {leaving} of {everybody} away over {window:.1f} s"
    load.did.append(f"{words}, back in {await cluster.heal()} s")


def sessions(cluster, name):
    metrics = cluster.ask(name, "/metrics") or ""
    return next((int(line.split()[1]) for line in metrics.splitlines() if line.startswith("aund_sessions ")), 0)


# The processes of a namespace, and the tags that are gone with it.
NAMESPACES = {
    "message": (("message1", "message2"), {"ns_message", "tool_call_artifacts"}),
    "agent": (("agent1",), {"agent_md", "consent_pages", "ns_agent", "ns_h2a", "scope_texts"}),
    "auth": (("auth1",), {"ns_auth"}),
    "ca": (("ca1",), {"ns_auth", "pki_http", "client_signature"}),
}


def test_a_namespace_that_is_down_says_so_and_returns(cluster):
    async def test():
        tags = await until("all gateways agreed", lambda: capabilities(cluster))
        assert set().union(*(lost for _, lost in NAMESPACES.values())) <= tags
        async with Load(cluster, "down for a while") as load:
            for namespace, (names, lost) in NAMESPACES.items():
                await load.goes_on()
                before = {name: cluster.pid(name) for name in names}
                for name in names:
                    cluster.hold(name)
                    cluster.signal(name, signal.SIGKILL)
                await until(f"the tags of {namespace} were gone", lambda: capabilities(cluster) == tags - lost)
                for gateway in GATEWAYS:
                    health = await asyncio.to_thread(cluster.health, gateway)
                    assert health["services"][namespace] == "down", f"{gateway} says {health}"
                await refuses(cluster, load, namespace)
                newcomer = await arrive(cluster, load) if namespace == "message" else None
                for name in names:
                    cluster.release(name)
                    await cluster.restarted(name, before[name])
                healed = await cluster.heal()
                await until(f"the tags of {namespace} were back", lambda: capabilities(cluster) == tags)
                load.did.append(f"{namespace} lost {', '.join(sorted(lost))}, refused, and came back in {healed} s")
                if newcomer:
                    await hears(load, newcomer)
            await load.goes_on()

    cluster.run(test())


def capabilities(cluster):
    """The tags that are told, if all gateways tell the same; each of them is asked sooner or later."""
    told = {frozenset(json.loads(cluster.server.get("/capabilities")[2])["features"]) for _ in range(ASKED)}
    return told.pop() if len(told) == 1 else None


async def refuses(cluster, load, namespace):
    """Its methods answer 5003 and that it is worth asking again."""
    device = load.devices[load.senders[0]]
    if namespace == "agent":
        status, _, body = await asyncio.to_thread(cluster.server.get, "/agent.md", load.senders[0])
        assert status == 503, f"GET /agent.md answered {status} {body[:200]}"
        return
    try:
        if namespace == "message":
            await device.session.call("message.query_online", aids=[load.senders[0]])
        else:
            async with opened(cluster.server) as connection:
                await connection.call("auth.create_aid", aid=f"nobody.{cluster.server.issuer}", public_key="", curve="P-256")
        raise AssertionError(f"{namespace} is down and answered")
    except Refused as refusal:
        assert (refusal.code, refusal.retryable) == (5003, True), f"{namespace} is down and answered {refusal}"


async def arrive(cluster, load):
    """A device nobody has seen before, which connects while nobody can remember it."""
    aid = load.receivers[0]
    heard = []
    device = Device(load, aid, "watch", lambda: lambda method, params: heard.append(params))
    load.staying.append(asyncio.create_task(device.stay_connected()))
    await asyncio.wait_for(device.connected.wait(), CALL_SECONDS * 2)
    return device, heard


async def hears(load, newcomer):
    """It gets what is sent from now on, like every other device."""
    device, heard = newcomer
    await device.connected.wait()
    await load.goes_on()
    await until("the new device heard of a message", lambda: heard)
