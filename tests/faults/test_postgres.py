"""PostgreSQL that is restarted, killed, and out of disk."""

import asyncio

import pytest
from load import Load
from place import until

REFUSED = 100


def test_postgres_is_restarted(place):
    async def test():
        async with Load(place, "PostgreSQL restarted") as load:
            for words, end in (("fast shutdown", place.postgres.stop), ("kill -9", place.postgres.kill)):
                await load.goes_on()
                await asyncio.to_thread(end)
                await until("somebody noticed", lambda: load.ended["calls told to come again"])
                await asyncio.to_thread(place.postgres.start)
                healed = await place.heal()
                await load.goes_on()
                load.did.append(f"{words}, healed in {healed} s")
                load.ended.clear()

    place.run(test())


def test_the_disk_of_postgres_is_full(place):
    if not place.postgres.has_disk:
        pytest.skip("PostgreSQL has no disk of its own to fill: this takes root and the right to mount")

    async def test():
        async with Load(place, "PostgreSQL's disk full") as load:
            await load.goes_on()
            try:
                filled = await asyncio.to_thread(place.postgres.fill)
                await until("many noticed", lambda: load.ended["calls told to come again"] >= REFUSED)
            finally:
                await asyncio.to_thread(place.postgres.free)
            load.did.append(f"{filled >> 20} MB taken and given back")
            # It gives up when even its log cannot be written; then whoever made service starts it again.
            if not place.postgres.runs():
                await asyncio.to_thread(place.postgres.start)
                load.did.append("it had stopped and was started")
            load.did.append(f"healed in {await place.heal()} s")
            await load.goes_on()

    place.run(test())
