"""Contestants: a server that is asked over HTTP, and a program that is given a whole list."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic

import aiohttp
import psutil

from benchmarks.peers.contest import Reply, Work
from benchmarks.server_process import ServerProcess

_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class HttpContestant(Generic[Work]):
    """A server: work becomes the JSON that is posted, and the JSON that comes back a reply."""

    name: str
    server: ServerProcess
    path: str
    body_of: Callable[[Work], Mapping[str, Any]]
    reply_of: Callable[[Any], Reply]
    at_once: int
    is_serial: bool = False

    def ask(self, works: Sequence[Work], at_once: int) -> list[Reply]:
        """One reply per piece of work, in order; raises RuntimeError when a request fails."""
        return asyncio.run(self._ask(works, at_once))

    def cpu_s(self) -> float:
        """CPU seconds so far; the client's do not count."""
        return self.server.cpu_s()

    async def _ask(self, works: Sequence[Work], at_once: int) -> list[Reply]:
        numbered = iter(enumerate(works))
        replies: dict[int, Reply] = {}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def one_after_another() -> None:
                for number, work in numbered:
                    replies[number] = await self._one(session, work)

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(at_once):
                        group.create_task(one_after_another())
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [replies[number] for number in range(len(works))]

    async def _one(self, session: aiohttp.ClientSession, work: Work) -> Reply:
        url = f"{self.server.url}{self.path}"
        try:
            async with session.post(url, json=self.body_of(work)) as response:
                body = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RuntimeError(f"{self.name} did not answer: {error!r}") from error
        if response.status != 200:
            raise RuntimeError(f"{self.name} answered {response.status}: {body[:500]}")
        return self.reply_of(json.loads(body))


@dataclass(frozen=True, slots=True)
class ProgramContestant(Generic[Work]):
    """A program that reads a list of work as one line of JSON, and writes the list of its replies."""

    name: str
    process: "subprocess.Popen[str]"
    body_of: Callable[[Work], Mapping[str, Any]]
    reply_of: Callable[[Any], Reply]
    at_once: int = 1
    is_serial: bool = True

    def ask(self, works: Sequence[Work], at_once: int) -> list[Reply]:
        """One reply per piece of work; a program decides by itself how many it does at a time."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([self.body_of(work) for work in works]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self.process.wait()}")
        return [self.reply_of(reply) for reply in json.loads(line)]

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        return ServerProcess("", psutil.Process(self.process.pid)).cpu_s()


@contextmanager
def program(command: Sequence[str], env: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A program with pipes, ended with its input; its errors stand in the terminal.

    `env` are settings of the environment, set by `env` itself.
    """
    settings = [f"{name}={value}" for name, value in env.items()]
    process = subprocess.Popen(
        ["env", *settings, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        assert process.stdin
        with suppress(BrokenPipeError):  # it has ended before it read everything
            process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
