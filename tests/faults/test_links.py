"""The links between processes: cut in both directions, in one, and ended by a certificate."""

import asyncio
import datetime
import os
import signal
import subprocess

from aund import binary
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from links import BACK, THERE
from load import Load
from place import GATEWAYS, until

CUTS = {"both directions": (THERE, BACK), "the way there": (THERE,), "the way back": (BACK,)}
# Links that messages do not need from one moment to the next.
BEHIND = (("auth1", "ca1"), ("message1", "auth1"), ("message2", "agent1"), ("gateway1", "auth1"), ("gateway2", "ca1"))
LIFE_SECONDS = 12


def test_a_link_is_cut_and_healed(place):
    async def test():
        async with Load(place, "links cut") as load:
            behind = place.chance.sample(BEHIND, len(CUTS))
            for (words, ways), back in zip(CUTS.items(), behind):
                front = place.chance.choice(GATEWAYS), place.chance.choice(("message1", "message2"))
                await load.goes_on()
                for asker, asked in (front, back):
                    place.links.cut(asker, asked, ways)
                for asker, asked in (front, back):
                    await until(f"{asker} found out", lambda: not place.is_up(asker, asked))
                await load.goes_on()
                place.links.heal()
                cut = " and ".join(f"{asker} from {asked}" for asker, asked in (front, back))
                load.did.append(f"{cut}, {words}: healed in {await place.heal()} s")
            await load.goes_on()

    place.run(test())


def test_both_gateways_lose_a_whole_namespace(place):
    async def test():
        async with Load(place, "message cut off from both gateways") as load:
            await load.goes_on()
            for asker in GATEWAYS:
                for asked in ("message1", "message2"):
                    place.links.cut(asker, asked)
            for asker in GATEWAYS:
                await until(f"{asker} found out", lambda: place.health(asker)["services"]["message"] == "down")
            place.links.heal()
            load.did.append(f"healed in {await place.heal()} s")
            await load.goes_on()

    place.run(test())


def test_a_certificate_expires_while_links_are_up(place):
    async def test():
        async with Load(place, f"a certificate of {LIFE_SECONDS} s") as load:
            await load.goes_on()
            short_lived(place.split / "mesh", "message")
            for name in ("message1", "message2"):
                before = place.pid(name)
                place.signal(name, signal.SIGKILL)
                await place.restarted(name, before)
            await place.heal()
            await load.goes_on()
            pids = {name: place.pid(name) for name in ("message1", "message2", *GATEWAYS)}
            load.refusals.clear()

            for name in GATEWAYS:
                await until("the links ended", lambda: place.health(name)["services"]["message"] == "down")
            await until("calls were refused", lambda: load.refusals[5003] >= len(load.writing))
            load.did.append(f"expired, refused {dict(load.refusals)}")

            words = [binary(), "certs", "mesh", place.split / "mesh", "message"]
            await asyncio.to_thread(subprocess.run, words, check=True, stdout=subprocess.DEVNULL)
            load.did.append(f"renewed, healed in {await place.heal()} s")
            await load.goes_on()
            assert set(load.refusals) == {5003}, f"refused with {dict(load.refusals)}"
            assert {name: place.pid(name) for name in pids} == pids, "somebody had to be started again"

    place.run(test())


def short_lived(folder, part):
    """The certificate of a part, once more from the same authority, with a life of a few seconds."""
    old = x509.load_pem_x509_certificate((folder / f"{part}.crt").read_bytes())
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
    whole = folder / f".{part}.crt"
    whole.write_text(new.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode())
    os.replace(whole, folder / f"{part}.crt")

