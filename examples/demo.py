"""Starts the application, asks three questions, and shows how each was answered.

One question ends in each action of the retrieval evaluator. Exits 0 only when all three were
answered with the action expected.

usage: python examples/demo.py [--port PORT]
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from crag_core.errors import SettingsError
from deployments.commands.terminal import out, print_answer
from deployments.local import refuse_port_in_use

CONFIG = "configs/embedded.yaml"
START_WITHIN_S = 300.0
QUESTIONS = {
    "correct": "Who wrote Nineteen Eighty-Four?",
    "ambiguous": "Who was the director of Jaws?",
    "incorrect": "Who is the author of Things Fall Apart?",
}


def main() -> int:
    """The number of questions that ended otherwise than expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="HTTP port of the application")
    url = f"http://127.0.0.1:{(port := parser.parse_args().port)}"
    # SIGTERM ends as Ctrl-C does: with the application stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    refuse_port_in_use("127.0.0.1", port)
    unexpected = 0
    with application(port) as server:
        wait_until_ready(url, server)
        for expected, question in QUESTIONS.items():
            out.rule(f"[bold]{question}[/]")
            reply = httpx.post(f"{url}/v1/answer", json={"question": question}, timeout=120)
            reply.raise_for_status()
            answer = reply.json()
            print_answer(answer)
            if answer["action"] != expected or not answer["answer"]:
                out.print(f"[red]expected action {expected}, got {answer['action']}[/]")
                unexpected += 1
        out.rule()
    out.print("all three answered as expected" if not unexpected else f"{unexpected} unexpected")
    return unexpected


@contextmanager
def application(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The application as a process of its own, stopped on the way out whatever happens."""
    crag = Path(sys.executable).with_name("crag")
    server = subprocess.Popen(
        [crag, "serve", CONFIG, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches this program, which then stops the server in order
    )
    try:
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def wait_until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    """Returns once every stage has answered its canary; exits when the server has given up."""
    give_up = time.monotonic() + START_WITHIN_S
    while time.monotonic() < give_up:
        time.sleep(0.5)
        if server.poll() is not None:
            sys.exit("the application did not start: its reason stands above")
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            continue
    sys.exit(f"the application was not ready within {START_WITHIN_S:.0f} s")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SettingsError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
