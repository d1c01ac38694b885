"""The links between processes: cut in both directions, in one, and ended by a certificate."""

import asyncio
import datetime
import os
import signal
import subprocess

from aund import binary
from cluster import GATEWAYS, until
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from links import BACK, THERE
from load import Load

CUTS = {"both directions": (THERE, BACK), "the way there": (THERE,), "the way back": (BACK,)}
# Links that messages do not need from one moment to the next.
BEHIND = (("auth1", "ca1"), ("message1", "auth1"), ("message2", "agent1"), ("gateway1", "auth1"), ("gateway2", "ca1"))
LIFE_SECONDS = 12


def test_a_link_is_cut_and_healed(cluster):
    async def test():
        async with Load(cluster, "links cut") as load:
            behind = cluster.chance.sample(BEHIND, len(CUTS))
            for (words, ways), back in zip(CUTS.items(), behind):
                front = cluster.chance.choice(GATEWAYS), cluster.chance.choice(("message1", "message2"))
                await load.goes_on()
                for asker, asked in (front, back):
                    cluster.links.cut(asker, asked, ways)
                for asker, asked in (front, back):
                    await until(f"{asker} found out", lambda: not cluster.is_up(asker, asked))
                await load.goes_on()
                cluster.links.heal()
                cut = " and ".join(f"{asker} from {asked}" for asker, asked in (front, back))
                load.did.append(f"{cut}, {words}: healed in {await cluster.heal()} s")
            await load.goes_on()

    cluster.run(test())


def test_both_gateways_lose_a_whole_namespace(cluster):
    async def test():
        async with Load(cluster, "message cut off from both gateways") as load:
            await load.goes_on()
            for asker in GATEWAYS:
                for asked in ("message1", "message2"):
                    cluster.links.cut(asker, asked)
            for asker in GATEWAYS:
                await until(f"{asker} found out", lambda: cluster.health(asker)["services"]["message"] == "down")
            cluster.links.heal()
            load.did.append(f"healed in {await cluster.heal()} s")
            await load.goes_on()

    cluster.run(test())


def test_a_certificate_expires_while_links_are_up(cluster):
    async def test():
        async with Load(cluster, f"a certificate of {LIFE_SECONDS} s") as load:
            await load.goes_on()
            short_lived(cluster.split / "mesh", "message")
            for name in ("message1", "message2"):
                before = cluster.pid(name)
                cluster.signal(name, signal.SIGKILL)
                await cluster.restarted(name, before)
            await cluster.heal()
            await load.goes_on()
            pids = {name: cluster.pid(name) for name in ("message1", "message2", *GATEWAYS)}
            load.refusals.clear()

            for name in GATEWAYS:
                await until("the links ended", lambda: cluster.health(name)["services"]["message"] == "down")
            await until("calls were refused", lambda: load.refusals[5003] >= len(load.writing))
            load.did.append(f"expired, refused {dict(load.refusals)}")

            words = [binary(), "certs", "mesh", cluster.split / "mesh", "message"]
            await asyncio.to_thread(subprocess.run, words, check=True, stdout=subprocess.DEVNULL)
            load.did.append(f"renewed, healed in {await cluster.heal()} s")
            await load.goes_on()
            assert set(load.refusals) == {5003}, f"refused with {dict(load.refusals)}"
            assert {name: cluster.pid(name) for name in pids} == pids, "somebody had to be started again"

    cluster.run(test())


def short_lived(folder, service):
    """The certificate of a service, once more from the same authority, valid for a few seconds."""
    old = x509.load_pem_x509_certificate((folder / f"{service}.crt").read_bytes())
    key = load_pem_private_key((folder / "authority.key").read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    new = x509.CertificateBuilder(
        issuer_name=old.issuer,
        subject_name=old.subject,
        public_key=old.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(hours=1),
        not_valid_after=now + datetime.timedelta(seconds=LIFE_SECONDS),
        extensions=list(old.extensions),
    )
    whole = folder / f".{service}.crt"
    whole.write_text(new.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode())
    os.replace(whole, folder / f"{service}.crt")

