"""The small models of `compact`: sound examples, no leak, a loss without padding, and what is served."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainerCallback
from typer.testing import CliRunner

from crag_core.compact.types import ExtractedAnswer, Reading
from crag_core.errors import SettingsError
from deployments.backends.reading.hop_models import HopModels
from deployments.cli import app
from deployments.settings import HopReaderSettings
from tests.deployments.reader_checkpoints import make_rewriter, make_span_model
from training.extractor import ExtractorTask, judged_spans
from training.hop_examples import rewrite_examples, span_examples
from training.hop_training import REPORT, HopRecipe, TrainedHop, train_hop
from training.rewriter import RewriterTask

ENTITIES = str(Path(__file__).parents[2] / ".models" / "en-core-web-sm")
CITIES = ("Rome", "Oslo", "Lima", "Bonn")


def span_record(number: int, split: str, **changes: Any) -> dict[str, Any]:
    """The city is the last word of the second pair's answer."""
    city = CITIES[number % 4]
    said = f"Poet {number} was born in {city}"
    head = f"Who wrote book {number}?\nPoet {number} did\n\nWhere was poet {number} born?\n"
    return {
        "id": str(number), "split": split, "question": f"Where was poet {number} born, then?",
        "context": head + said, "answer": city, "answer_start": len(head) + said.index(city), **changes,
    }  # fmt: skip


def rewrite_record(number: int, split: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": str(number), "split": split, "input": f"Q: Where is he? | prev_answer: n{number}",
        "output": f"Where is n{number}?", **changes,
    }  # fmt: skip


def written(folder: Path, name: str, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    splits = ["train"] * 48 + ["valid"] * 8 + ["test"] * 8
    records = [span_record(number, split) for number, split in enumerate(splits)]
    return written(tmp_path / "data", "compactrag_extract", records)


@pytest.fixture
def rewrites(tmp_path: Path) -> Path:
    splits = ["train"] * 32 + ["valid"] * 4 + ["test"] * 4
    records = [rewrite_record(number, split) for number, split in enumerate(splits)]
    return written(tmp_path / "data", "compactrag_rewrite", records)


def recipe(base: Path, **changes: Any) -> HopRecipe:
    fields: dict[str, Any] = {
        "base": str(base), "learning_rate": 3e-3, "epochs": 4.0, "batch_examples": 8, "max_tokens": 128,
    }  # fmt: skip
    return HopRecipe(**{**fields, **changes})


class NoEntities:
    """A finder for tests that need no rule."""

    def entities(self, texts: Any) -> list[list[tuple[str, str]]]:
        return [[] for _ in texts]


def trained_extractor(base: Path, data: Path, out: Path, **how: Any) -> TrainedHop:
    chosen = recipe(base, **how.pop("changes", {}))
    task = ExtractorTask(base, chosen, NoEntities())
    return train_hop(task, span_examples(data, 0.5, 1), chosen, out, command="crag train", **how)


def test_what_a_split_is_judged_by_is_in_no_earlier_one(tmp_path: Path) -> None:
    same = {"question": "The same?"}
    records = [
        span_record(1, "train"), span_record(2, "train", **same), span_record(3, "valid"),
        span_record(4, "test", **same), span_record(3, "train", id="again"),
    ]  # fmt: skip
    splits = span_examples(written(tmp_path / "data", "compactrag_extract", records), 0.0, 1)
    assert [each.reading.question for each in splits.train] == ["Where was poet 1 born, then?"]
    assert splits.left_out == {"shared with a later split": 2}


def test_an_answer_that_does_not_stand_where_it_should_is_left_out(tmp_path: Path) -> None:
    records = [
        span_record(1, "train"), span_record(2, "train", answer_start=3),
        span_record(5, "train", answer="Paris"), span_record(6, "train", answer=""),
        span_record(7, "train", answer_start=9_999), span_record(3, "valid"), span_record(4, "test"),
    ]  # fmt: skip
    splits = span_examples(written(tmp_path / "data", "compactrag_extract", records), 0.0, 1)
    assert (len(splits.train), splits.left_out) == (1, {"misaligned": 4})
    (example,) = splits.train
    assert example.gold is not None and example.gold.pair == 1
    assert example.reading.pairs[1].pair.answer[example.gold.start :] == example.gold.text == "Oslo"


def test_a_null_example_has_lost_the_pairs_that_name_the_answer(spans: Path) -> None:
    splits = span_examples(spans, 0.25, 1)
    nulls = [each for each in splits.train if each.gold is None]
    assert len(nulls) == 12 and len(splits.test) == 16
    assert all(len(each.reading.pairs) == 1 for each in nulls)
    said = [found.pair.answer for each in nulls for found in each.reading.pairs]
    assert not any(city in text for city in CITIES for text in said)


def test_an_answer_that_no_tokens_say_alone_teaches_nothing(tmp_path: Path) -> None:
    base = make_span_model(tmp_path / "base")
    part = {"context": "Who?\nHe directed", "answer": "direct", "answer_start": 8}
    records = [
        span_record(1, "train"), span_record(2, "train", **part),
        span_record(3, "valid"), span_record(4, "test"),
    ]  # fmt: skip
    splits = span_examples(written(tmp_path / "data", "compactrag_extract", records), 0.0, 1)
    encoded = ExtractorTask(base, recipe(base), NoEntities()).encoded(splits.train)
    assert (len(encoded), encoded.left_out) == (1, 1)


def test_labels_point_at_the_answer_and_at_nothing_where_there_is_none(
    tmp_path: Path, spans: Path
) -> None:
    base = make_span_model(tmp_path / "base")
    task = ExtractorTask(base, recipe(base), NoEntities())
    examples = span_examples(spans, 0.5, 1).train
    encoded = task.encoded(examples)
    serving = task._serving(task.model)
    for place, (example, window) in enumerate(
        zip(examples, serving.windows([each.reading for each in examples]), strict=True)
    ):
        label = encoded[place]["start"], encoded[place]["end"]
        if example.gold is None:
            assert label == (0, 0)
        else:
            assert window.text(*label) == example.gold.text


def test_an_extractor_learns_and_is_served_as_it_was_judged(tmp_path: Path, spans: Path) -> None:
    base, out = make_span_model(tmp_path / "base"), tmp_path / "out"
    trained = trained_extractor(base, spans, out)
    assert trained.losses[-1] < 0.5 * trained.losses[0]
    assert trained.test["f1_of_all"] > trained.untrained["f1_of_all"]
    assert trained.test["loss"] < trained.untrained["loss"]
    assert [each["epoch"] for each in trained.epochs] == [1, 2, 3, 4]
    served = HopModels.open(
        HopReaderSettings.model_validate(
            {"extractor": {"model": str(out), "max_tokens": 128}, "entities": ENTITIES}
        )
    )
    found = judged_spans(served.extractor, span_examples(spans, 0.5, 1).test)
    assert found == {name: value for name, value in trained.test.items() if name != "loss"}
    report = json.loads((out / REPORT).read_text("utf-8"))
    assert report["command"] == "crag train" and report["recipe"]["learning_rate"] == 3e-3
    assert not out.with_name("out.training").exists()


def test_the_best_epoch_is_kept_and_not_the_last(
    tmp_path: Path, spans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, out = make_span_model(tmp_path / "base"), tmp_path / "out"
    judged: list[dict[str, Any]] = []
    scores = iter([0.0, 0.1, 0.9, 0.2, 0.0])  # the base on the test, three epochs, the test

    def judge(self: ExtractorTask, model: Any, examples: Any) -> dict[str, float]:
        judged.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"f1_of_all": next(scores)}

    monkeypatch.setattr(ExtractorTask, "judged", judge)
    trained = trained_extractor(base, spans, out, changes={"epochs": 3.0})
    assert [each["f1_of_all"] for each in trained.epochs] == [0.1, 0.9, 0.2]
    head = "qa_outputs.weight"
    assert judged[-1][head].equal(judged[2][head]) and not judged[-1][head].equal(judged[3][head])


class _Interrupted(TrainerCallback):
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.epoch >= 2:
            raise KeyboardInterrupt


def test_an_interrupted_training_comes_to_the_same_end(tmp_path: Path, spans: Path) -> None:
    base, out = make_span_model(tmp_path / "base"), tmp_path / "out"

    def interrupting(trainer: Trainer) -> Trainer:
        trainer.add_callback(_Interrupted())
        return trainer

    with pytest.raises(KeyboardInterrupt):
        trained_extractor(base, spans, out, prepare=interrupting)
    with pytest.raises(SettingsError, match=r"other settings \(epochs\)"):
        trained_extractor(base, spans, out, changes={"epochs": 2.0})
    resumed = trained_extractor(base, spans, out)
    whole = trained_extractor(base, spans, tmp_path / "whole")
    assert resumed.steps == whole.steps and resumed.test == pytest.approx(whole.test)
    for once, again in zip(resumed.epochs, whole.epochs, strict=True):
        assert once == pytest.approx(again)


def test_what_cannot_be_known_from_the_input_is_not_trained_on(tmp_path: Path) -> None:
    records = [
        rewrite_record(1, "train"), rewrite_record(2, "train", output="Where is he?"),
        rewrite_record(5, "train", output="Where is n5 of Xanadu?"),
        rewrite_record(3, "valid"), rewrite_record(4, "test", output="Where is n4 of Xanadu?"),
        rewrite_record(3, "train", id="again"),
    ]  # fmt: skip
    splits = rewrite_examples(written(tmp_path / "data", "compactrag_rewrite", records))
    assert [each.rewriting.entity for each in splits.train] == ["n1"] and len(splits.test) == 1
    assert splits.left_out == {"not to be known from the input": 2, "shared with a later split": 1}


def test_padding_of_labels_counts_for_nothing_in_the_loss(tmp_path: Path, rewrites: Path) -> None:
    base = make_rewriter(tmp_path / "base")
    task = RewriterTask(base, recipe(base))
    encoded = task.encoded(rewrite_examples(rewrites).train[:1])
    long = {**encoded[0], "labels": encoded[0]["labels"] * 3}
    both = task.collate([encoded[0], long])
    padding = both["labels"][0] == -100
    assert padding.sum() == 2 * len(encoded[0]["labels"])
    alone = task.model.eval()(**task.collate([encoded[0]]))
    row = {name: both[name][:1] for name in ("input_ids", "attention_mask", "labels")}
    assert task.model(**row).loss.item() == pytest.approx(alone.loss.item(), abs=1e-5)


def test_a_rewriter_learns_and_is_served(tmp_path: Path, rewrites: Path) -> None:
    base, out = make_rewriter(tmp_path / "base"), tmp_path / "out"
    chosen = recipe(base, epochs=10.0)
    splits = rewrite_examples(rewrites)
    trained = train_hop(RewriterTask(base, chosen), splits, chosen, out, command="c")
    assert trained.losses[-1] < 0.8 * trained.losses[0]
    assert trained.test["loss"] < trained.untrained["loss"]
    assert trained.rule == {"exact_match": 1.0, "f1": 1.0, "faithful": 1.0}
    served = HopModels.open(
        HopReaderSettings.model_validate({"rewriter": {"model": str(out)}, "entities": ENTITIES})
    )
    (text,) = served.rewrite([splits.test[0].rewriting])
    assert text is not None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"split": "dev"}, "record 0 is no example"),
        ({"input": "Where is he?"}, "record 0 is no example"),
        ({"split": "test"}, "has no records of split train"),
    ],
)
def test_a_file_of_no_use_is_told_in_one_sentence(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    broken = {**rewrite_record(0, "train"), **changes}
    records = [broken, rewrite_record(1, "valid"), rewrite_record(2, "test")]
    data = written(tmp_path / "data", "compactrag_rewrite", records)
    with pytest.raises(SettingsError, match=told):
        rewrite_examples(data)


def test_a_base_of_no_use_is_told_by_the_command(tmp_path: Path, rewrites: Path, spans: Path) -> None:
    for asked in (
        ["extractor", "--base", str(tmp_path), "--entities", ENTITIES],
        ["rewriter", "--base", str(tmp_path)],
        ["rewriter"],
    ):
        end = CliRunner().invoke(
            app, ["train", *asked, "--data", str(rewrites), "--out", str(tmp_path / "out")]
        )
        assert end.exit_code == 2 and "Traceback" not in end.output


def test_the_command_trains_from_scratch_and_prints_what_it_came_to(
    tmp_path: Path, rewrites: Path
) -> None:
    end = CliRunner().invoke(
        app,
        ["train", "rewriter", "--scratch", "tiny", "--max-steps", "2", "--max-examples", "8",
         "--max-judged", "2", "--data", str(rewrites), "--out", str(tmp_path / "out"), "--json"],
    )  # fmt: skip
    assert end.exit_code == 0, end.output
    assert json.loads((tmp_path / "out" / REPORT).read_text("utf-8"))["steps"] == 2


def test_judging_tells_answers_from_abstentions(spans: Path) -> None:
    class Never:
        def extract(self, readings: Sequence[Reading]) -> Sequence[ExtractedAnswer | None]:
            return [None for _ in readings]

    found = judged_spans(Never(), span_examples(spans, 0.0, 1).test)
    assert found == {"f1_of_all": 0.5, "exact_match": 0.0, "f1": 0.0, "abstained": 1.0}
