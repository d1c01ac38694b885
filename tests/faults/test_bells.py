"""What nobody is told of by the next message: a single one for each, while whoever should ring for it is killed."""

import asyncio
import signal

import pytest
from load import Load

ROUNDS = 5
MOMENT = 0.03


class Single(Load):
    """Nobody writes by itself, and nobody says that it has read."""

    in_flight = 0
    readers = 8
    acknowledges = False

    async def one_for_each(self):
        messages = [self.compose(self.chance.choice(self.senders), aid) for aid in self.receivers]
        await asyncio.gather(*(self.send(self.people[message.sender], message) for message in messages))
        self.found.add("acknowledged sends", len(messages))


def test_without_a_fault_nothing_fails(place):
    async def test():
        async with Load(place, "no fault") as load:
            await load.goes_on(500)
        assert not load.sentences and not load.ended and not load.closes, f"{load}"

    place.run(test())


@pytest.mark.parametrize("what", ["message", "redis"])
def test_a_bell_is_rung_though_the_ringer_is_killed(place, what):
    async def test():
        async with Single(place, f"one message for each while {what} is killed") as load:
            for _ in range(ROUNDS):
                sending = asyncio.create_task(load.one_for_each())
                # Somewhere between the first call and the last bell.
                await asyncio.sleep(place.chance.uniform(0, MOMENT))
                await (kill_message if what == "message" else kill_redis)(place)
                await sending
                await place.heal()
                await load.everybody_hears()
            load.did.append(f"{ROUNDS} times")

    place.run(test())


async def kill_message(place):
    before = {name: place.pid(name) for name in ("message1", "message2")}
    for name in before:
        place.signal(name, signal.SIGKILL)
    for name, pid in before.items():
        await place.restarted(name, pid)


async def kill_redis(place):
    await asyncio.to_thread(place.redis.kill)
    await asyncio.to_thread(place.redis.start)
