"""The features, and how each is switched off: in the settings, in the code, or in Ray."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from benchmarks.ablation import evaluators
from benchmarks.served_application import Config
from deployments.evaluator import Evaluator

_MODES = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_HA_PROXY": "1"}
"""Ray's serving modes, on unless it is they that are switched off."""

_ALWAYS_S = 1e6
"""A queue delay that is never reached: what is begun ahead is begun under any load."""


class Questions(StrEnum):
    """What is asked."""

    FRESH = "fresh"
    """No question twice."""
    REPEATED = "repeated"
    """As popular as their ranks (Zipf), as users' questions are."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The server without one feature."""

    name: str
    title: str
    """What is done instead."""
    app: Callable[[dict[str, Any]], Any] = evaluators.whole
    evaluator: type = Evaluator
    args: Mapping[str, Any] = field(default_factory=dict)
    """Laid over the settings."""
    modes: Mapping[str, str] = field(default_factory=dict)
    """Of Ray, laid over those that are on."""
    questions: Questions = Questions.FRESH

    @property
    def env(self) -> Mapping[str, str]:
        """Ray's serving modes, as it reads them from the environment."""
        return {**_MODES, **self.modes}

    def config(self, base: Config) -> Config:
        """The config without the feature."""
        changed = deepcopy(base)
        application = changed["applications"][0]
        application["import_path"] = f"{evaluators.__name__}:{self.app.__name__}"
        _lay_over(application["args"], self.args)
        for deployment in application["deployments"]:
            if deployment["name"] == "Evaluator":
                deployment["name"] = self.evaluator.__name__
        return changed


WHOLE = Variant("nothing", "the server as it is")
VARIANTS = (
    WHOLE,
    Variant(
        "packing", "batches padded to their longest pair", evaluators.unpacked,
        evaluators.UnpackedEvaluator,
    ),
    Variant(
        "pruning", "the decoder's top layer for every row", evaluators.unpruned,
        evaluators.UnprunedEvaluator,
    ),
    Variant(
        "scheduler", "Ray's @serve.batch at its defaults, no score kept", evaluators.serve_batched,
        evaluators.ServeBatchedEvaluator,
    ),
    Variant(
        "cache", "no score kept", args={"evaluator": {"batching": {"cached_scores": 0}}},
        questions=Questions.REPEATED,
    ),
    Variant(
        "action-aware scoring", "all strips scored, whatever the action",
        args={"crag": {"speculation": {"strips": True, "max_queue_delay_s": _ALWAYS_S}}},
    ),
    Variant("speculation", "nothing begun ahead", args={"crag": {"speculation": {"search": False}}}),
    Variant(
        "throughput mode", "Ray Serve's defaults inside", modes={"RAY_SERVE_THROUGHPUT_OPTIMIZED": "0"},
    ),
    Variant("HAProxy ingress", "Ray's own proxy", modes={"RAY_SERVE_ENABLE_HA_PROXY": "0"}),
)  # fmt: skip


def _lay_over(args: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            _lay_over(args.setdefault(name, {}), value)
        else:
            args[name] = value
