"""Scaling: each policy decides by its own signal; under Serve's own delays a recorded load is followed
calmly."""

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve import autoscaling_policy
from ray.serve.autoscaling_policy import _apply_autoscaling_config
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy

from crag_core.context import Lane
from crag_core.types import Passage
from deployments.evaluator import Evaluator
from deployments.local import app_settings, load_config
from deployments.messages import EvaluateRequest, WireContext
from deployments.scaling import EvaluatorPolicy, GeneratorPolicy, SearcherPolicy, desired_replicas

ROOT = Path(__file__).parents[2]
TRACE = Path(__file__).with_name("evaluator_load.csv")


def context(
    replicas: int,
    *,
    target: int | None = None,
    requests: float = 10,
    queued: float = 0,
    config: AutoscalingConfig | None = None,
    state: dict[str, Any] | None = None,
    **signals: list[float],
) -> AutoscalingContext:
    """What Serve tells a policy; each signal has a value per replica that reported."""
    return AutoscalingContext(
        deployment_id=None,  # type: ignore[arg-type]  # no policy looks at it
        deployment_name="X",
        app_name="crag",
        current_num_replicas=replicas,
        target_num_replicas=replicas if target is None else target,
        running_replicas=[],
        total_num_requests=requests,
        total_queued_requests=queued,
        aggregated_metrics={
            name: dict(enumerate(values))
            for name, values in signals.items()  # type: ignore[misc]
        },
        raw_metrics={},
        capacity_adjusted_min_replicas=0,
        capacity_adjusted_max_replicas=100,
        policy_state=state or {},
        last_scale_up_time=None,
        last_scale_down_time=None,
        current_time=0.0,
        config=config,
    )


@pytest.mark.parametrize(
    ("target", "running", "demand", "desired"),
    [
        (1, 1, 0.0, 0),
        (1, 1, 0.01, 1),
        (2, 2, 2.0, 2),
        (2, 2, 2.01, 3),
        (2, 2, 1.51, 2),  # one fewer would have less than a quarter to spare
        (2, 2, 0.75, 1),
        (4, 4, 50.0, 8),  # no more than twice what runs
        (8, 4, 50.0, 8),  # ... and those that start are waited for
        (8, 4, 3.0, 4),
    ],
)
def test_replicas_follow_demand_with_a_band_in_which_nothing_changes(
    target: int, running: int, demand: float, desired: int
) -> None:
    assert desired_replicas(target, running, demand, slack=0.25) == desired


def test_no_demand_makes_the_number_swing() -> None:
    for demand in (number / 100 for number in range(1, 1_000)):
        seen, replicas = [5], 5
        for _ in range(20):
            replicas = max(1, desired_replicas(replicas, replicas, demand, slack=0.25))
            seen.append(replicas)
        steps = [after - before for before, after in pairwise(seen) if after != before]
        assert all(step > 0 for step in steps) or all(step < 0 for step in steps)
        assert seen[-1] == seen[-2]


@pytest.mark.parametrize(
    ("busy", "backlog_s", "desired"),
    [
        ([0.1, 0.1], [0.0, 0.0], 1),
        ([0.6, 0.7], [0.1, 0.1], 2),
        ([1.0, 1.0], [0.0, 0.0], 3),
        ([1.0, 1.0], [5.0, 5.0], 4),  # 2 busy, and 10 s of backlog to be through in 5 s
        ([0.0], [0.0], 0),
    ],
)
def test_the_evaluator_scales_by_device_seconds(
    busy: list[float], backlog_s: list[float], desired: int
) -> None:
    decided, _ = EvaluatorPolicy()(context(len(busy), busy=busy, backlog_s=backlog_s))
    assert decided == desired


def test_requests_that_no_replica_has_taken_count_as_more_of_the_same() -> None:
    policy = GeneratorPolicy()
    assert policy(context(4, fill=[0.7] * 4))[0] == 4
    assert policy(context(4, fill=[0.7] * 4, requests=20, queued=10))[0] == 8


@pytest.mark.parametrize(("fill", "desired"), [(0.2, 2), (0.74, 4), (1.5, 8), (0.0, 0)])
def test_the_generator_scales_by_what_its_engines_hold(fill: float, desired: int) -> None:
    assert GeneratorPolicy()(context(4, fill=[fill] * 4))[0] == desired


@pytest.mark.parametrize(
    ("requests", "queued", "waiting", "desired"),
    [
        (60.0, 0.0, [0.0, 0.0], 4),
        (60.0, 0.0, [25.0, 25.0], 1),  # nearly all wait for the budget: a replica would do
        (200.0, 90.0, [40.0, 40.0], 2),  # the queue is there because the budget is spent
        (20.0, 0.0, [2.0, 2.0], 2),
    ],
)
def test_the_searcher_never_scales_past_the_budget(
    requests: float, queued: float, waiting: list[float], desired: int
) -> None:
    ctx = context(2, requests=requests, queued=queued, waiting_for_budget=waiting)
    assert SearcherPolicy()(ctx)[0] == desired


@pytest.mark.parametrize("policy", [EvaluatorPolicy(), GeneratorPolicy(), SearcherPolicy()])
def test_without_signals_everything_stays(policy: Callable[[AutoscalingContext], Any]) -> None:
    assert policy(context(3))[0] == 3
    assert policy(context(0, target=1))[0] == 1


def test_serve_takes_the_policies_of_the_production_config_by_value() -> None:
    content = yaml.safe_load((ROOT / "serve_config.yaml").read_text("utf-8"))
    policies = {
        deployment["name"]: deployment["autoscaling_config"]["policy"]
        for deployment in content["applications"][0]["deployments"]
        if "policy" in deployment.get("autoscaling_config", {})
    }
    assert set(policies) == {"Evaluator", "Generator", "Searcher"}
    for policy in policies.values():
        loaded = AutoscalingPolicy(**policy)
        assert loaded.get_policy()(**loaded.policy_kwargs)(context(2))[0] == 2


async def test_the_evaluator_reports_what_its_policy_reads(embedded: Evaluator) -> None:
    wire = WireContext("r", 60.0, Lane.INTERACTIVE, None)
    passages = tuple(
        Passage(f"Lighthouse {number} stands on the northern coast.") for number in range(40)
    )
    await embedded.record_autoscaling_stats()
    await embedded.evaluate(EvaluateRequest(wire, "Where does it stand?", passages))
    worked = await embedded.record_autoscaling_stats()
    idle = await embedded.record_autoscaling_stats()
    assert worked["busy"] > 0 and (idle["busy"], idle["backlog_s"]) == (0.0, 0.0)
    decided, _ = EvaluatorPolicy()(context(1, **{name: [value] for name, value in idle.items()}))
    assert decided == 0


@pytest.fixture
def embedded() -> Evaluator:
    settings = app_settings(load_config(ROOT / "configs/embedded.yaml")).evaluator
    return Evaluator(
        settings.model_copy(
            update={
                "model": str(ROOT / settings.model),
                "encoder": str(ROOT / (settings.encoder or "")),
            }
        )
    )


@dataclass
class Clock:
    """Stands for the module `time` in Serve's policies."""

    now_s: float = 0.0

    def time(self) -> float:
        return self.now_s


@dataclass
class SimulatedEvaluator:
    """Replicas that work through device seconds, second by second; new ones take their time to start."""

    starts_in_s: int
    replicas: int = 1
    backlog_s: float = 0.0
    starting: list[float] = field(default_factory=list)

    @property
    def target(self) -> int:
        return self.replicas + len(self.starting)

    def scale(self, target: int, now_s: float) -> None:
        while self.target < target:
            self.starting.append(now_s + self.starts_in_s)
        while self.target > target:
            if self.starting:
                self.starting.pop()
            else:
                self.replicas -= 1

    def second(self, offered_s: float, now_s: float) -> float:
        """One second in which so much work comes; returns the share of time that devices worked."""
        self.replicas += sum(at_s <= now_s for at_s in self.starting)
        self.starting = [at_s for at_s in self.starting if at_s > now_s]
        worked_s = min(self.replicas, self.backlog_s + offered_s)
        self.backlog_s += offered_s - worked_s
        return worked_s / self.replicas


def followed(trace: list[float], monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[float]]:
    """Replicas and backlog, second by second, under Serve's own delays on a simulated clock."""
    clock = Clock()
    monkeypatch.setattr(autoscaling_policy, "time", clock)
    config = AutoscalingConfig(min_replicas=1, max_replicas=16, upscale_delay_s=5, downscale_delay_s=120)
    decide, state = _apply_autoscaling_config(EvaluatorPolicy()), {}
    evaluator, busy, targets, backlogs = SimulatedEvaluator(starts_in_s=20), [0.0], [], []
    for second, offered_s in enumerate(trace):
        clock.now_s = float(second)
        busy.append(evaluator.second(offered_s, clock.now_s))
        look_back = busy[-10:]
        ctx = context(
            evaluator.replicas,
            target=evaluator.target,
            config=config,
            state=state,
            busy=[sum(look_back) / len(look_back)] * evaluator.replicas,
            backlog_s=[evaluator.backlog_s / evaluator.replicas] * evaluator.replicas,
        )
        decided, state = decide(ctx)
        evaluator.scale(min(max(decided, 1), 16), clock.now_s)
        targets.append(evaluator.target)
        backlogs.append(evaluator.backlog_s)
    return targets, backlogs


def turns(targets: list[int]) -> int:
    """How often the number of replicas turned from growing to shrinking or back."""
    steps = [after - before for before, after in pairwise(targets) if after != before]
    return sum((before > 0) != (after > 0) for before, after in pairwise(steps))


def test_a_recorded_load_is_followed_without_swinging(monkeypatch: pytest.MonkeyPatch) -> None:
    with TRACE.open() as file:
        burst = [float(row["device_seconds"]) for row in csv.DictReader(file)]
    quiet = [0.05] * 300
    targets, backlogs = followed([*quiet, *burst, *quiet, *burst, *quiet], monkeypatch)
    assert max(targets) > 2, "the load needs more than what it began with"
    assert turns(targets) <= 3, "up and down with each of the two bursts, nothing between"
    assert targets[-1] == 1
    assert backlogs[len(quiet) + len(burst) + 60] < 1.0, "what a burst left is soon worked through"
