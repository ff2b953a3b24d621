"""How many replicas a deployment needs, by its own signal instead of a count of requests.

Each policy turns what its replicas report (`record_autoscaling_stats`) into a demand: the number of
replicas, fractional, that would carry the load at their target. A pure rule makes a number of replicas
of it, with a band in which nothing changes; Serve adds its delays and the bounds of the deployment.

Serve pickles this file into its controller by value, so it imports nothing of this project.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray.serve.config import AutoscalingContext

Decision = tuple[float, dict[str, Any]]
Signals = Mapping[str, Sequence[float]]

_MOST_AT_ONCE = 2.0
"""Replicas that start do not help yet, so a burst would be answered over and over: at most so many
times the running ones are asked for."""


def desired_replicas(target: int, running: int, demand: float, slack: float) -> int:
    """Replicas for a demand: more when it exceeds them, fewer when the rest would have `slack` to spare.

    >>> [desired_replicas(4, 4, demand, slack=0.25) for demand in (0.0, 2.0, 2.9, 3.1, 4.0, 4.1, 100.0)]
    [0, 3, 4, 4, 4, 5, 8]
    """
    if demand > target:
        most = max(target, math.ceil(running * _MOST_AT_ONCE))
        return min(math.ceil(demand), most)
    return min(target, math.ceil(demand / (1 - slack)))


@dataclass(frozen=True)
class EvaluatorPolicy:
    """The evaluator: device seconds asked for per second, and those that wait.

    `busy` is the share of time that a replica's device works, `backlog_s` the device seconds of the
    tokens that wait there. A full device cannot show how much more was asked for; its backlog does,
    which is to be through within `drain_s`.
    """

    utilisation: float = 0.7
    drain_s: float = 5.0
    slack: float = 0.25

    def __call__(self, ctx: AutoscalingContext) -> Decision:
        """Replicas by device time."""
        signals = _signals(ctx, "busy", "backlog_s")
        if signals is None:
            return _as_it_is(ctx)
        backlog_s = sum(signals["backlog_s"]) * _with_those_at_callers(ctx)
        demand = (sum(signals["busy"]) + backlog_s / self.drain_s) / self.utilisation
        return _decided(ctx, demand, self.slack)


@dataclass(frozen=True)
class GeneratorPolicy:
    """The generator: completions that run or wait in vLLM, by sequences and by tokens.

    `fill` is the larger of two shares of one engine, that of its sequences and that of its KV cache,
    waiting completions included; above 1 the engine lets some of them wait.
    """

    occupancy: float = 0.75
    slack: float = 0.25

    def __call__(self, ctx: AutoscalingContext) -> Decision:
        """Replicas by what an engine can hold."""
        signals = _signals(ctx, "fill")
        if signals is None:
            return _as_it_is(ctx)
        demand = sum(signals["fill"]) * _with_those_at_callers(ctx) / self.occupancy
        return _decided(ctx, demand, self.slack)


@dataclass(frozen=True)
class SearcherPolicy:
    """The searcher: searches that are worked on, not those that wait for the budget.

    The budget of a wiki is one for all replicas. Where most searches wait for it, more replicas would
    only wait beside them, so none are added.
    """

    target_searches: float = 16.0
    slack: float = 0.25

    def __call__(self, ctx: AutoscalingContext) -> Decision:
        """Replicas by searches that need a replica."""
        signals = _signals(ctx, "waiting_for_budget")
        if signals is None:
            return _as_it_is(ctx)
        waiting = sum(signals["waiting_for_budget"])
        worked_on = max(0.0, ctx.total_num_requests - waiting)
        decided, state = _decided(ctx, worked_on / self.target_searches, self.slack)
        if waiting > (ctx.total_num_requests - ctx.total_queued_requests) / 2:
            return min(decided, ctx.target_num_replicas), state
        return decided, state


def _signals(ctx: AutoscalingContext, *names: str) -> Signals | None:
    """What each running replica reports; None while nothing runs, or nothing has reported."""
    reported = ctx.aggregated_metrics or {}
    if ctx.current_num_replicas == 0 or not all(reported.get(name) for name in names):
        return None
    return {name: tuple(reported[name].values()) for name in names}


def _with_those_at_callers(ctx: AutoscalingContext) -> float:
    """By how much the requests that no replica has taken yet raise what the replicas report."""
    taken = ctx.total_num_requests - ctx.total_queued_requests
    return ctx.total_num_requests / taken if taken > 0 else 1.0


def _decided(ctx: AutoscalingContext, demand: float, slack: float) -> Decision:
    target, running = ctx.target_num_replicas, ctx.current_num_replicas
    return float(desired_replicas(target, running, demand, slack)), {}


def _as_it_is(ctx: AutoscalingContext) -> Decision:
    """Serve itself starts the first replica of a deployment at zero when a request comes."""
    return float(ctx.target_num_replicas), {}
