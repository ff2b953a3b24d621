"""`crag calibrate`: a quality run's answers under each action become the thresholds of a manifest."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context

from benchmarks.figures import STYLE, new_axes, svg
from benchmarks.quality.analysis import SetResults, results_of
from benchmarks.quality.ledger import read_rows
from benchmarks.quality.methods import Method
from benchmarks.quality.question_sets import read_set
from benchmarks.quality.statistics import paired_difference
from crag_core.errors import SettingsError
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorManifest,
    EvaluatorThresholds,
    load_manifest,
    write_manifest,
)
from training.calibration import Calibration, Outcomes, calibrate

_FORCED = (Method.CRAG_CORRECT, Method.CRAG_AMBIGUOUS, Method.CRAG_INCORRECT)
_NO_DOCUMENTS = -1e6
"""The score of a question without documents: below every threshold, as the trigger has it."""


def calibrated(
    folder: Path,
    run: Path,
    data: Path,
    names: list[str],
    budget: float,
    labels: Path | None,
    encoder: str | None,
    out: Path | None,
    *,
    write: bool,
) -> dict[str, Any]:
    """The chosen thresholds with what they are worth; written into the manifest when asked for.

    Raises SettingsError when the run lacks an action, or was made with another evaluator.
    """
    manifest = load_manifest(folder)
    try:
        rows = read_rows(run)
        sets = [read_set(data, name) for name in names]
    except (OSError, ValueError) as error:
        raise SettingsError(str(error)) from error
    results = results_of(sets, rows, _FORCED)
    _refuse_other_evaluator(results, manifest, run)
    found = calibrate(_outcomes(results), manifest.thresholds.action(), budget)
    strip = manifest.thresholds.strip
    if labels is not None:
        strip = _strip_threshold(folder, encoder, labels)
    chosen = EvaluatorThresholds(
        upper=found.chosen.thresholds.upper, lower=found.chosen.thresholds.lower, strip=strip
    )
    report = _report(found, manifest.thresholds, chosen)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "calibration.svg").write_text(_curve(found), "utf-8")
        (out / "calibration.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if write:
        write_manifest(folder, manifest.model_copy(update={"thresholds": chosen}))
    return report


def _outcomes(results: list[SetResults]) -> Outcomes:
    """The judged questions of all sets, one after the other."""
    columns = [[value for each in results for value in each.values(method)] for method in _FORCED]
    scores = [
        _NO_DOCUMENTS if row.best_score is None else row.best_score
        for each in results
        for row in each.judged[_FORCED[0]]
    ]
    return Outcomes(np.array(scores), *(np.array(values) for values in columns))


def _refuse_other_evaluator(results: list[SetResults], manifest: EvaluatorManifest, run: Path) -> None:
    used = {
        row.evaluator_id
        for each in results
        for rows in each.rows.values()
        for row in rows
        if row.evaluator_id is not None
    }
    if not used:
        raise SettingsError(
            f"{run} has no question of these sets under all of {', '.join(_FORCED)}: run them first"
        )
    if used != {manifest.evaluator_id}:
        raise SettingsError(
            f"{run} was scored by {', '.join(sorted(used))}, and this folder holds "
            f"{manifest.evaluator_id}: thresholds belong to one checkpoint"
        )


def _strip_threshold(folder: Path, encoder: str | None, labels: Path) -> float:
    from deployments.backends.evaluators.scorer import load_scorer
    from deployments.settings import EvaluatorSettings
    from training.evaluator_test import scored_by
    from training.labelled_pairs import labelled_pairs
    from training.thresholds import thresholds

    scorer = load_scorer(EvaluatorSettings(model=str(folder), encoder=encoder, threads=2))
    pairs = labelled_pairs(labels)
    scores = scored_by(scorer, pairs, lambda _: None)
    relevant = np.array([pair.is_relevant for pair in pairs])
    return thresholds(relevant, scores, np.array([pair.group for pair in pairs])).strip


def _report(
    found: Calibration, before: EvaluatorThresholds, chosen: EvaluatorThresholds
) -> dict[str, Any]:
    gain = paired_difference(found.held_out.tolist(), found.before.tolist())
    sentence = (
        f"{100 * found.chosen.accuracy:.1f} % right on the {gain.n} questions they were chosen on, "
        f"{100 * found.held_out.mean():.1f} % on questions they were not, "
        f"{100 * found.before.mean():.1f} % with upper {before.upper:g} and lower {before.lower:g}: "
        f"{100 * gain.mean:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f}); "
        f"{100 * found.chosen.search_share:.0f} % of questions search, "
        f"{100 * found.search_share_before:.0f} % before"
    )
    return {
        "thresholds": chosen.model_dump(),
        "before": before.model_dump(),
        "questions": gain.n,
        "accuracy_chosen_on": found.chosen.accuracy,
        "accuracy_held_out": float(found.held_out.mean()),
        "accuracy_before": float(found.before.mean()),
        "gain_held_out": asdict(gain),
        "search_share": found.chosen.search_share,
        "search_share_before": found.search_share_before,
        "sentence": sentence,
    }


def _curve(found: Calibration) -> str:
    with rc_context(STYLE):
        figure, axes = new_axes("questions that search, %", "right answers, %")
        shares = [100 * point.search_share for point in found.curve]
        axes.plot(shares, [100 * point.accuracy for point in found.curve], label="best for a budget")
        chosen = found.chosen
        limits = f"{chosen.thresholds.upper:g} / {chosen.thresholds.lower:g}"
        axes.scatter(
            [100 * chosen.search_share], [100 * chosen.accuracy], color="tab:green", zorder=3,
            label=f"chosen: {limits}",
        )  # fmt: skip
        axes.scatter(
            [100 * found.search_share_before], [100 * found.before.mean()], color="tab:red", zorder=3,
            label="before",
        )  # fmt: skip
        return svg(figure, axes)
