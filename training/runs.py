"""A training as a run: begun, resumed as it was begun, ended at what is no number, written whole."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from crag_core.errors import SettingsError
from deployments.backends.model_folder import TOKENIZER_FILES

_RUN = "run.json"
_TOKENIZER_FILES = (
    *TOKENIZER_FILES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)

Prepare = Callable[[Trainer], Trainer]
"""What is done to a trainer before it runs, as by a cluster."""


def begin(out: Path, run: dict[str, Any]) -> Path:
    """The folder of a run's checkpoints, beside `out`; one begun before goes on only as the same run.

    Raises SettingsError when `out` is there, or the run before was another.
    """
    if out.exists():
        raise SettingsError(f"{out} exists: choose another --out, or remove it")
    work = out.with_name(f"{out.name}.training")
    work.mkdir(parents=True, exist_ok=True)
    note = work / _RUN
    run = json.loads(json.dumps(run))
    if note.exists():
        found = json.loads(note.read_text("utf-8"))
        if found != run:
            changed = ", ".join(sorted(name for name in run if run[name] != found.get(name)))
            raise SettingsError(
                f"{work} holds a training with other settings ({changed}): give it the same ones, or "
                "remove it"
            )
    note.write_text(json.dumps(run, indent=1) + "\n", "utf-8")
    return work


def go_on(trainer: Trainer, work: Path) -> None:
    """Train, from the last checkpoint where there is one."""
    last: str | None = get_last_checkpoint(str(work))  # type: ignore[no-untyped-call]  # theirs
    trainer.train(resume_from_checkpoint=last)


def losses(trainer: Trainer) -> tuple[float, ...]:
    """Means of the logged steps, from the first to the last."""
    return tuple(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out` when all is written."""
    aside = out.with_name(f"{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    yield aside
    aside.replace(out)


def copy_tokenizer(base: Path, folder: Path) -> None:
    """The tokenizer's files as they are, so that serving reads texts as training did."""
    for name in _TOKENIZER_FILES:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)


class StopAtNaN(TrainerCallback):
    """Ends a training whose loss is no number, rather than let it write useless weights."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Raises SettingsError."""
        bad = [
            name for name, value in (logs or {}).items() if "loss" in name and not math.isfinite(value)
        ]
        if bad:
            raise SettingsError(
                f"the {bad[0]} is no number at step {state.global_step}, and nothing was written: lower "
                "--learning-rate, and give another --out to start anew"
            )
