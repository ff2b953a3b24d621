"""Training on a Ray cluster: the same loop on several workers, by Ray Train."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from crag_core.errors import SettingsError
from training.fine_tuning import Recipe, Trained, fine_tune
from training.labelled_pairs import LabelledPair


def fine_tune_on_cluster(
    pairs: Sequence[LabelledPair],
    recipe: Recipe,
    out: Path,
    trained_on: str,
    command: str,
    *,
    workers: int,
    use_gpu: bool,
) -> Trained:
    """As `fine_tune`, on workers of the cluster that this process is in, or else of this machine.

    `out` and `recipe.base` must be on storage that every worker sees. Raises SettingsError.
    """
    shared = ray.put(list(pairs))

    def loop(config: dict[str, Any]) -> None:
        trained = fine_tune(
            ray.get(config["pairs"]),
            config["recipe"],
            config["out"],
            trained_on=config["trained_on"],
            command=config["command"],
        )
        ray.train.report({"trained": trained})

    config = {
        "pairs": shared,
        "recipe": recipe,
        "out": out.absolute(),
        "trained_on": trained_on,
        "command": command,
    }
    with tempfile.TemporaryDirectory() as storage:
        trainer = TorchTrainer(
            loop,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=use_gpu),
            run_config=RunConfig(storage_path=storage),
        )
        result = trainer.fit()
    if result.error is not None:
        raise SettingsError(f"the training on the cluster failed: {result.error}") from result.error
    assert result.metrics is not None, "the loop has reported"
    trained: Trained = result.metrics["trained"]
    return trained
