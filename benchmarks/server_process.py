"""A server as a process of this machine: started, waited for, its CPU time read, stopped."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

_POLL_S = 0.25
_LOG_END = 3_000


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server and everything it started."""

    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        """CPU seconds so far, of all of them."""
        return sum(self.cpu_s_by_process().values())

    def cpu_s_by_process(self) -> dict[tuple[int, str], float]:
        """CPU seconds so far, by process id and by what the process is."""
        spent: dict[tuple[int, str], float] = {}
        for process in [self.process, *self.process.children(recursive=True)]:
            with suppress(psutil.Error):  # it may end while we look
                times = process.cpu_times()
                spent[process.pid, _name(process)] = times.user + times.system
        return spent


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    ready_path: str,
    *,
    env: Mapping[str, str] | None = None,
    within_s: float = 600.0,
    stops_within_s: float = 60.0,
) -> Iterator[ServerProcess]:
    """The server that a command starts on a port of loopback, until the block ends.

    It is ready when `ready_path` answers with success. Raises RuntimeError with the end of its log when
    that does not happen in time.
    """
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="server-") as folder:
        log = Path(folder, "log.txt")
        with log.open("wb") as output:
            server = subprocess.Popen(
                command,
                env={**os.environ, **(env or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait_until_ready(f"{url}{ready_path}", server, log, within_s)
            yield ServerProcess(url, psutil.Process(server.pid))
        finally:
            _stop(server, stops_within_s)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(server: "subprocess.Popen[bytes]", within_s: float) -> None:
    """End a server as Ctrl-C does; what it started and left behind, by force."""
    left: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        left = psutil.Process(server.pid).children(recursive=True)
    server.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        server.wait(within_s)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    server.kill()
    server.wait()


def _wait_until_ready(url: str, server: "subprocess.Popen[bytes]", log: Path, within_s: float) -> None:
    give_up_s = time.monotonic() + within_s
    while not _is_ready(url):
        if server.poll() is not None or time.monotonic() > give_up_s:
            end = log.read_text("utf-8", "replace")[-_LOG_END:]
            raise RuntimeError(f"the server did not start; its log ends:\n{end}")
        time.sleep(_POLL_S)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _name(process: psutil.Process) -> str:
    """What a process is: a replica by its class, anything else by its program."""
    title = " ".join(process.cmdline()[:1]) or process.name()
    if title.startswith("ray::"):
        words = title.removeprefix("ray::").split(":")
        return words[-1].split("#")[0].split(".")[0]  # behind the dot is the method that runs just now
    return process.name()
