"""A server of many processes with a PostgreSQL, a Redis and a network of its own, and faults for each of them."""

import asyncio
import json
import os
import random
import secrets
import shutil
import subprocess
import tempfile
import time
import tomllib
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from aund import Aund, binary, samples
from links import Links, address
from stores import Postgres, Redis

SEED = int(os.environ.get("AUND_FAULT_SEED", secrets.randbelow(1_000_000)))
NAMES = subprocess.run([binary(), "services"], check=True, capture_output=True, text=True).stdout.split()
SERVICES = tuple(
    f"{name}{number}" for name in NAMES if name != "gateway" for number in ((1, 2) if name == "message" else (1,))
)
GATEWAYS = ("gateway1", "gateway2")
CALL_SECONDS = 5
# Whatever was done to it, the server is whole again so long after.
HEAL_SECONDS = 30
# One address here does more than the default limits allow, and calls that cannot be answered end early.
LIMITS = {
    "calls_per_second": 1_000_000,
    "connects_per_second": 100_000,
    "http_per_second": 100_000,
    "registrations_per_minute": 1_000_000,
    "call_timeout_ms": CALL_SECONDS * 1000,
}


class Cluster:
    def __init__(self):
        print(f"\nseed {SEED}", flush=True)
        self.chance = random.Random(SEED)
        self.folder = folder = Path(tempfile.mkdtemp(prefix="aund-"))
        # PostgreSQL is another user where we are root.
        folder.chmod(0o711)
        self.runner = asyncio.Runner()
        self.postgres = Postgres(made(folder / "postgres"))
        self.redis = Redis(made(folder / "redis"))
        self.postgres.start()
        self.redis.start()
        os.environ |= {
            "AUND_TEST_SHAPE": "split",
            "AUND_TEST_STORE": "postgres",
            "AUND_TEST_POSTGRES_URL": self.postgres.url,
            "AUND_TEST_REDIS_URL": self.redis.url,
            "AUND_SPLIT_LINKS": f"127.{random.randint(16, 250)}.{random.randint(1, 250)}.{random.randint(2, 250)}",
        }
        self.server = Aund(folder / "aund", limits=LIMITS)
        self.split = self.server.folder / "split"
        self.links = Links(self.split / "links.json")
        self.server.start()

    def close(self):
        self.server.stop()
        self.links.close()
        self.runner.close()
        self.redis.kill()
        self.postgres.close()
        if os.environ.get("AUND_FAULT_KEEP"):
            print(f"the logs of all processes are in {self.folder}", flush=True)
        else:
            shutil.rmtree(self.folder)

    def run(self, test):
        self.runner.run(test)

    # ---- Faults -----------------------------------------------------------------------------------------------------

    def pid(self, name):
        return int((self.split / f"{name}.pid").read_text())

    def signal(self, name, sign):
        os.kill(self.pid(name), sign)

    def hold(self, name):
        """When it ends now, it stays away."""
        (self.split / f"{name}.hold").touch()

    def release(self, name):
        (self.split / f"{name}.hold").unlink()

    async def restarted(self, name, before):
        await until(f"{name} was started again", lambda: self.pid(name) != before)

    # ---- What it says of itself -------------------------------------------------------------------------------------

    def ask(self, name, path):
        """What one process answers to the operator, or nothing."""
        settings = tomllib.loads((self.split / f"{name}.toml").read_text())
        connection = HTTPConnection(*address(settings["status"]["listen"]), timeout=2)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, HTTPException):
            return None
        finally:
            connection.close()

    def health(self, name):
        return json.loads(self.ask(name, "/health") or '{"status": "gone", "services": {}}')

    def is_up(self, asker, asked):
        """What a process says of its link to another one."""
        url = f"wss://{self.links.dials[asker, asked]}"
        links = samples(self.ask(asker, "/metrics") or "", "aund_mesh_link_up")
        return any(value for labels, value in links if url in labels.values())

    def is_whole(self):
        well = all(self.health(name)["status"] == "ok" for name in SERVICES + GATEWAYS)
        return well and all(self.is_up(asker, asked) for asker, asked in self.links.links)

    async def heal(self):
        """Waits until every process says that it is well; answers with how many seconds that took."""
        began = time.monotonic()
        await until("the server was whole again", self.is_whole, HEAL_SECONDS)
        return round(time.monotonic() - began, 1)


async def until(what, check, seconds=HEAL_SECONDS):
    """Waits until the check, which may block, gives something true, and gives it back."""
    deadline = time.monotonic() + seconds
    while True:
        found = await asyncio.to_thread(check)
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)


def made(folder):
    folder.mkdir(parents=True)
    return folder
