"""A PostgreSQL and a Redis of our own: stopped, killed, emptied, filled and started again."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

READY_SECONDS = 60
DISK_MEGABYTES = 400
PR_SET_PDEATHSIG = 1


class Store:
    """A server process that never outlives us."""

    last_signal = signal.SIGKILL
    user = None

    def __init__(self, folder):
        self.folder = Path(folder)
        self.port = free_port()
        self.process = None

    def start(self):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(
                    self.command(), stdout=log, stderr=log, cwd=self.folder, user=self.user, preexec_fn=self.end_with_us
                )
            while self.process.poll() is None:
                if self.answers():
                    return
                time.sleep(0.05)
            # What was killed leaves its memory behind for a moment, and the next one does not start.
            assert time.monotonic() < deadline, (self.folder / "log").read_text(errors="replace")[-3000:]
            time.sleep(0.2)

    def end_with_us(self):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, self.last_signal)

    def end(self, sign):
        self.process.send_signal(sign)
        self.process.wait(timeout=60)

    def kill(self):
        self.end(signal.SIGKILL)


class Redis(Store):
    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def command(self):
        words = ["--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.folder]
        return ["redis-server", *map(str, words)]

    def answers(self):
        try:
            return self.say("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def say(self, command):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(100)


class Postgres(Store):
    """Where we are root it has a small disk of its own, which can be filled."""

    last_signal = signal.SIGQUIT

    def __init__(self, folder):
        super().__init__(folder)
        self.bin = postgres_folder()
        self.data = self.folder / "disk" / "data"
        self.data.parent.mkdir(mode=0o755)
        self.has_disk = os.geteuid() == 0 and self.mount()
        if os.geteuid() == 0:
            self.user = "postgres"
            self.folder.chmod(0o755)
            shutil.chown(self.data.parent, "postgres")
            shutil.chown(self.folder, "postgres")
        words = ["--pgdata", self.data, "--username", "aund", "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
        # Small pieces of its log, so that a full disk meets the log as well as the tables.
        subprocess.run(
            [self.bin / "initdb", *words, "--wal-segsize", "1"],
            check=True, stdout=subprocess.DEVNULL, cwd=self.folder, user=self.user,
        )

    def mount(self):
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m,mode=700", "tmpfs", self.data.parent]
        return subprocess.run(words, capture_output=True).returncode == 0

    @property
    def url(self):
        return f"postgres://aund@127.0.0.1:{self.port}/postgres"

    def command(self):
        # Nothing here has to survive a power cut.
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        settings |= {"max_connections": 300, "fsync": "off", "shared_buffers": "32MB", "max_wal_size": "64MB"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self.bin / "postgres", "-D", self.data, *words]

    def answers(self):
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--quiet"]
        return subprocess.run([self.bin / "pg_isready", *words]).returncode == 0

    def runs(self):
        return self.process.poll() is None

    def stop(self):
        """Fast: whoever is connected is cut off, what is under way is rolled back."""
        self.end(signal.SIGINT)

    def fill(self):
        """Takes what is left of its disk; answers with how many bytes that were."""
        block = b"\0" * 65536
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(block)
            except OSError:
                return file.tell()

    def free(self):
        self.filler.unlink(missing_ok=True)

    @property
    def filler(self):
        return self.data.parent / "filler"

    def close(self):
        if self.process is not None and self.runs():
            self.end(signal.SIGQUIT)
        if self.has_disk:
            subprocess.run(["umount", "--lazy", self.data.parent], check=True)


def postgres_folder():
    """Debian keeps the server's programs out of the PATH, in a folder per major version."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise FileNotFoundError("PostgreSQL is not installed: there is no initdb")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
