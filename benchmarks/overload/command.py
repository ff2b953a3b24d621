"""The command `overload`."""

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console

from benchmarks.load.settings import ArrivalSettings, LoadSettings, WorkloadSettings
from benchmarks.load.workloads import workload
from benchmarks.overload.coming_back import Returns, coming_back
from benchmarks.overload.phases import (
    PATIENCE,
    RETRIES,
    Clients,
    goodput_per_s,
    one_by_one,
    peak_per_s,
    recovered_s,
    shares,
)
from benchmarks.report import table
from benchmarks.served_application import Config, read_config, served
from benchmarks.server_process import ServerProcess
from benchmarks.timed_config import with_timed_engine

TIMES = 3.0
_CALM_S = 10.0
_STEP_S = 8.0
_AFTER_S = 20.0
_CALM = 0.5
_TIMED_SEQUENCES = 2
_GOOD_SHARE, _RECOVERED_WITHIN_S, _TOLD_WITHIN, _GROWTH = 0.85, 10.0, 2.0, 0.02


@dataclass(frozen=True, slots=True)
class Overload:
    """What the server did; times in seconds, rates per second."""

    engine: str
    tells_deadline: bool
    idle_p50_s: float
    patience_s: float
    peak_per_s: float
    offered_per_s: float
    goodput_per_s: float
    outcomes: dict[str, float]
    recovered_s: float
    resident_mib_before: float
    resident_mib_after: float
    returns: Returns

    @property
    def promises(self) -> dict[str, bool]:
        """What is promised of an overload, and whether it was kept."""
        told_s = max(1.0, self.returns.all_done_s) / max(1.0, self.returns.at_best_s)
        grown = self.resident_mib_after / self.resident_mib_before - 1
        return {
            "goodput is 85 % of the peak": self.goodput_per_s >= _GOOD_SHARE * self.peak_per_s,
            "all is well within 10 s after it": self.recovered_s < _RECOVERED_WITHIN_S,
            "Retry-After is right within a factor of 2": (
                self.returns.found_room >= self.returns.refused / _TOLD_WITHIN and told_s <= _TOLD_WITHIN
            ),
            "memory does not grow": grown <= _GROWTH,
        }


def overload(
    config: Annotated[Path, typer.Option(help="Serve config file.")] = Path("configs/embedded.yaml"),
    real: Annotated[
        bool, typer.Option(help="Keep the config's engine; else one that only takes its time.")
    ] = False,
    silent: Annotated[bool, typer.Option(help="Clients do not say how long they wait.")] = False,
    duration_s: Annotated[float, typer.Option(help="Length of the overload.", min=5)] = 60.0,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of an answer at most.", min=1)] = 24,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Three times what the server can do, for a minute, from clients who give up and come back.

    Exit 1 when a promise is broken.
    """
    err = Console(stderr=True)
    content = read_config(config)
    if not real:
        content = with_timed_engine(content)
        _args(content)["generator"]["max_num_seqs"] = _TIMED_SEQUENCES
    with served(content) as server:
        measured = _measured(server, content, err, real, silent, duration_s, max_new_tokens)
    print(json.dumps(_as_json(measured), indent=1) if as_json else markdown(measured))
    if not all(measured.promises.values()):
        raise typer.Exit(1)


def markdown(measured: Overload) -> str:
    """The figures, and the promises."""
    returns = measured.returns
    outcomes = ", ".join(f"{100 * share:.1f} % {name}" for name, share in measured.outcomes.items())
    rows = [
        ["an answer's median time on the idle server", f"{measured.idle_p50_s:.2f} s"],
        ["clients give up after", f"{measured.patience_s:.2f} s"],
        ["peak goodput", f"{measured.peak_per_s:.2f} a second"],
        ["offered in the overload", f"{measured.offered_per_s:.2f} a second, and {RETRIES} retries"],
        ["goodput in the overload", f"{measured.goodput_per_s:.2f} a second"],
        ["... as a share of the peak", f"{100 * measured.goodput_per_s / measured.peak_per_s:.0f} %"],
        ["outcomes", outcomes],
        ["all is well after", f"{measured.recovered_s:.1f} s"],
        [
            "resident memory before and after",
            f"{measured.resident_mib_before:.0f}, {measured.resident_mib_after:.0f} MiB",
        ],
        ["burst: admitted at once, refused", f"{returns.admitted}, {returns.refused}"],
        ["... of those, found room when told", f"{returns.found_room}"],
        ["... longest Retry-After", f"{returns.longest_told_s:.0f} s"],
        ["... all done after, at best", f"{returns.all_done_s:.1f} s, {returns.at_best_s:.1f} s"],
    ]
    promises = [[name, "kept" if kept else "broken"] for name, kept in measured.promises.items()]
    who = (
        "who say how long they wait" if measured.tells_deadline else "who do not say how long they wait"
    )
    return "\n\n".join(
        [
            f"## {TIMES:g} times the load, {measured.engine} engine, clients {who}",
            table(["", ""], rows),
            table(["promise", ""], promises),
        ]
    )


def _measured(
    server: ServerProcess,
    config: Config,
    err: Console,
    real: bool,
    silent: bool,
    duration_s: float,
    max_new_tokens: int,
) -> Overload:
    calm = Clients(server.url, max_new_tokens=max_new_tokens)
    calm.come(ArrivalSettings(rate_per_s=2.0), _STEP_S / 2)  # the first answers load what is lazy
    idle_s = one_by_one(calm, _CALM_S)
    patience_s = PATIENCE * idle_s
    hurried = Clients(server.url, patience_s, not silent, 0, max_new_tokens)
    peak = peak_per_s(hurried, _STEP_S)
    err.print(f"idle {idle_s:.2f} s, peak {peak:.2f} a second: {TIMES:g} times as much", highlight=False)
    before_mib = _resident_mib(server)
    crowd = Clients(server.url, patience_s, not silent, RETRIES, max_new_tokens)
    flooded = crowd.come(ArrivalSettings(rate_per_s=TIMES * peak), duration_s)
    good_per_s = goodput_per_s(flooded, duration_s)
    err.print(f"{good_per_s:.2f} good answers a second; half as much", highlight=False)
    after = hurried.come(ArrivalSettings(rate_per_s=_CALM * peak), _AFTER_S, seed=1)
    after_mib = _resident_mib(server)
    err.print(
        f"well after {recovered_s(after):.1f} s; a burst, and those who come back", highlight=False
    )
    settings = LoadSettings(workload=WorkloadSettings(max_new_tokens=max_new_tokens))
    body = workload(settings).request(0).body
    max_wait_s = float(_args(config).get("admission", {}).get("max_wait_s", 10.0))
    returns = asyncio.run(coming_back(server.url, peak, max_wait_s, body))
    return Overload(
        engine="the config's" if real else "timed",
        tells_deadline=not silent,
        idle_p50_s=idle_s,
        patience_s=patience_s,
        peak_per_s=peak,
        offered_per_s=TIMES * peak,
        goodput_per_s=good_per_s,
        outcomes=shares(flooded),
        recovered_s=recovered_s(after),
        resident_mib_before=before_mib,
        resident_mib_after=after_mib,
        returns=returns,
    )


def _args(config: Config) -> Config:
    args: Config = config["applications"][0]["args"]
    return args


def _as_json(measured: Overload) -> dict[str, object]:
    return {**asdict(measured), "promises": measured.promises}


def _resident_mib(server: ServerProcess) -> float:
    total = 0.0
    for pid, _ in server.cpu_s_by_process():
        try:
            total += psutil.Process(pid).memory_info().rss / 2**20
        except psutil.Error:  # it has just ended
            continue
    return total
