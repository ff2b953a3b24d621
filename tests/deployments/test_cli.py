"""The command line: errors are sentences with an exit code, never a traceback."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.__main__ import COMMANDS
from deployments.api.keys import Keys
from deployments.cli import app
from tests.deployments.reader_checkpoints import make_rewriter, make_span_model

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples/encyclopedia"


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def config_with(tmp_path: Path, **args: Any) -> Path:
    """The embedded config with paths made absolute and some settings changed."""
    content = yaml.safe_load((ROOT / "configs/embedded.yaml").read_text("utf-8"))
    settings = content["applications"][0]["args"]
    settings["retriever"]["index"] = str(ROOT / ".indexes/sample-corpus")
    settings["retriever"]["encoder"]["model"] = str(ROOT / ".models/all-minilm-l6-v2")
    settings["evaluator"]["model"] = str(ROOT / "deployments/evaluators/minilm-head")
    settings["evaluator"]["encoder"] = str(ROOT / ".models/all-minilm-l6-v2")
    settings["generator"]["model"] = str(ROOT / ".models/smollm2-135m-instruct")
    settings["searcher"]["snapshot"] = str(ROOT / ".indexes/sample-snapshot")
    settings["compact"]["knowledge_base"]["index"] = str(ROOT / ".indexes/sample-pairs")
    settings["compact"]["knowledge_base"]["encoder"]["model"] = str(ROOT / ".models/all-minilm-l6-v2")
    settings["compact"]["reader"]["entities"] = str(ROOT / ".models/en-core-web-sm")
    settings["explain"]["entities"] = str(ROOT / ".models/en-core-web-sm")
    for name, changes in args.items():
        settings[name] = {**settings.get(name, {}), **changes}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


def test_the_doctor_finds_the_embedded_application_well(tmp_path: Path) -> None:
    result = run("doctor", config_with(tmp_path), "--json")
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    for name in (
        "settings",
        "encoder",
        "index",
        "evaluator",
        "generator",
        "snapshot",
        "pairs",
        "entities",
    ):
        assert findings[name]["well"], findings[name]


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("generator", {"model": "./nowhere"}, "generator: model folder ./nowhere does not exist"),
        ("generator", {"model": str(ROOT / "docs")}, "holds no model: it has no config.json"),
        ("retriever", {"index": "./nowhere"}, "holds no finished index"),
        ("searcher", {"snapshot": "./nowhere"}, "holds no finished index"),
        ("searcher", {"entity_model": "nowhere"}, "the entity recogniser nowhere cannot"),
        ("evaluator", {"model": "./nowhere"}, "evaluator: model folder ./nowhere does not exist"),
        ("crag", {"thresholds": {"upper": -1.0, "lower": 1.0}}, "is below lower threshold"),
        ("compact", {"reader": {"entities": "./nowhere"}}, "the entity recogniser ./nowhere cannot"),
        ("compact", {"reader": {"extractor": {"model": "./nowhere"}}}, "extractor: model folder ./now"),
    ],
    ids=[
        "generator",
        "no-model",
        "index",
        "snapshot",
        "entity-model",
        "evaluator",
        "thresholds",
        "entities",
        "extractor",
    ],
)
def test_the_doctor_names_what_cannot_work(
    tmp_path: Path, section: str, change: dict[str, Any], words: str
) -> None:
    result = run("doctor", config_with(tmp_path, **{section: change}))
    assert result.exit_code == 1
    assert words in " ".join(result.output.split())


def test_serve_refuses_what_cannot_work_before_it_starts(tmp_path: Path) -> None:
    path = config_with(tmp_path, generator={"model": "./nowhere"})
    result = run("serve", path, "--port", "8765")
    assert result.exit_code == 2
    assert "generator: model folder ./nowhere does not exist" in " ".join(result.output.split())


def test_an_index_of_another_encoder_is_refused_with_both_sides(tmp_path: Path) -> None:
    path = config_with(tmp_path)
    content = yaml.safe_load(path.read_text("utf-8"))
    content["applications"][0]["args"]["retriever"]["encoder"]["pooling"] = "cls"
    path.write_text(yaml.safe_dump(content), "utf-8")
    output = " ".join(run("doctor", path).output.split())
    assert "pooling mean" in output and "pooling cls" in output


def test_building_and_looking_at_a_snapshot(tmp_path: Path) -> None:
    source = tmp_path / "pages.jsonl"
    source.write_text(
        '{"title": "Kale", "text": "Kale is a leafy vegetable.", "revision": 1}\nnot json\n', "utf-8"
    )
    result = run("snapshot", "build", source, "--out", tmp_path / "snapshot")
    assert result.exit_code == 0, result.output
    assert "1 rows, 1 rejected" in " ".join(result.output.split())
    assert "pages.jsonl:2" in result.output.replace("\n", "")


def test_an_index_that_is_not_there_names_the_command_that_builds_one(tmp_path: Path) -> None:
    result = run("index", "info", tmp_path)
    assert result.exit_code == 2
    assert "crag index build" in " ".join(result.output.split())


def test_the_gpu_plan_adds_up(tmp_path: Path) -> None:
    result = run("plan", config_with(tmp_path), "--card-gib", "24", "--json")
    assert result.exit_code == 0, result.output
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    # SmolLM2-135M in float32: 134.5 million parameters of 4 bytes
    assert "weights 0.50 + KV" in findings["generator memory"]["detail"]
    assert findings["generator memory"]["well"] and findings["evaluator memory"]["well"]
    too_small = run("plan", config_with(tmp_path), "--card-gib", "1", "--json")
    assert too_small.exit_code == 1
    findings = {finding["name"]: finding for finding in json.loads(too_small.stdout)}
    assert not findings["generator memory"]["well"]
    assert "gpu_memory_utilization" in findings["generator memory"]["remedy"]


def test_a_plan_of_a_model_that_is_not_there_says_so(tmp_path: Path) -> None:
    config = config_with(tmp_path, generator={"model": str(tmp_path / "absent")})
    result = run("plan", config)
    assert result.exit_code == 2
    assert "absent" in " ".join(result.output.split())


def test_a_hop_reader_on_a_card_is_planned_too(tmp_path: Path) -> None:
    path = config_with(tmp_path)
    content = yaml.safe_load(path.read_text("utf-8"))
    application = content["applications"][0]
    application["args"]["compact"]["reader"] |= {
        "extractor": {"model": str(make_span_model(tmp_path / "spans")), "device": "cuda"},
        "rewriter": {"model": str(make_rewriter(tmp_path / "rewriter")), "device": "cuda"},
    }
    cards = {"Generator": 0.7, "Evaluator": 0.2, "HopReader": 0.1}
    for deployment in application["deployments"]:
        deployment["ray_actor_options"]["num_gpus"] = cards.get(deployment["name"], 0)

    def findings() -> dict[str, Any]:
        path.write_text(yaml.safe_dump(content), "utf-8")
        result = run("plan", path, "--card-gib", "24", "--json")
        return {finding["name"]: finding for finding in json.loads(result.stdout)}

    found = findings()
    totals = [
        float(found[f"{name} memory"]["detail"].split(" = ")[1].split(" GiB")[0])
        for name in ("generator", "evaluator", "hop reader")
    ]
    shared = found["shared card"]["detail"]
    assert shared.endswith("for Generator, Evaluator, HopReader")
    assert float(shared.split()[0]) == pytest.approx(sum(totals), abs=0.02)
    application["args"]["compact"]["reader"]["extractor"]["device"] = "cpu"
    assert "hop reader memory" in findings()
    application["args"]["compact"]["reader"]["rewriter"]["device"] = "cpu"
    found = findings()
    assert "hop reader memory" not in found
    assert found["shared card"]["detail"].endswith("for Generator, Evaluator")


def test_measuring_without_a_server_says_so(tmp_path: Path) -> None:
    result = run("quality", "--data", SAMPLE, "--name", "questions", "--url", "http://127.0.0.1:9/")
    assert result.exit_code == 2
    assert "accuracy" not in result.output


def test_searching_without_a_server_says_how_to_start_one() -> None:
    result = run("search", "Who wrote Dracula?", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "no server answers at http://127.0.0.1:9" in " ".join(result.output.split())


@pytest.fixture
def served_search(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server's answer to a search, safe and unsafe text in it, and what was sent for it."""
    sent: list[Any] = []
    found = {
        "queries": [{"text": "Dracula", "strategy": "direct", "entity": "Dracula", "reason": "who"}],
        "results": [
            {
                "title": "Dracula", "url": "https://wiki.example/Dracula", "revision": "7",
                "strategy": "direct", "query": "Dracula", "score": None, "text": "A [bold]\x1b novel.",
                "document_id": "wikipedia:1", "source": "wikipedia",
            }
        ],
        "same_name": ["Dracula (film)"],
        "requests": 1,
        "degraded": [],
    }  # fmt: skip

    def post(url: str, **arguments: Any) -> httpx.Response:
        sent.append((url, arguments["json"]))
        return httpx.Response(200, json=found)

    monkeypatch.setattr(httpx, "post", post)
    return sent


def test_a_search_is_shown_with_the_way_to_each_page(served_search: Any) -> None:
    result = run("search", "Who wrote Dracula?", "--limit", "3")
    assert result.exit_code == 0, result.output
    assert served_search == [
        ("http://127.0.0.1:8000/v1/search", {"question": "Who wrote Dracula?", "limit": 3})
    ]
    assert "by direct Dracula, revision 7" in result.output
    assert "A [bold]  novel." in result.output and "others of that name: Dracula (film)" in result.output


def test_a_search_is_printed_as_json(served_search: Any) -> None:
    result = run("search", "Dracula", "--query", "--json")
    assert json.loads(result.stdout)["results"][0]["title"] == "Dracula"
    assert served_search[0][1] == {"query": "Dracula", "limit": 5}


def test_a_port_out_of_range_is_a_usage_error() -> None:
    assert run("serve", ROOT / "configs/embedded.yaml", "--port", "99999").exit_code == 2


def test_a_key_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    first = json.loads(run("key", "add", "team", "--file", file, "--json").stdout)["key"]
    second = run("key", "add", "team", "--file", file).stdout.strip()
    keys = Keys(file=str(file))
    found = [keys.find(secret) for secret in (first, second)]
    assert [key and key.id for key in found] == ["team", "team"]
    assert first not in file.read_text() and second not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["A team"], "id: String should match"),
        (["team", "--requests-per-minute", "5"], "differ in what they may"),
    ],
)
def test_a_key_that_would_spoil_the_file_is_not_added(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "keys.jsonl"
    run("key", "add", "team", "--file", file)
    before = file.read_text()
    result = run("key", "add", *arguments, "--file", file)
    assert result.exit_code == 2 and words in result.stderr
    assert file.read_text() == before and list(tmp_path.iterdir()) == [file]


def test_the_doctor_says_when_a_server_needs_a_key_and_has_none(tmp_path: Path) -> None:
    config = config_with(tmp_path)
    content = yaml.safe_load(config.read_text("utf-8"))
    content["http_options"]["host"] = "0.0.0.0"
    config.write_text(yaml.safe_dump(content), "utf-8")
    result = run("doctor", config, "--json")
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert "crag key add" in findings["access"]["detail"] and result.exit_code == 1


@pytest.mark.parametrize(("seconds", "well"), [(90, False), (620, True)])
def test_the_doctor_compares_keep_alive_with_common_balancers(
    seconds: int, well: bool, tmp_path: Path
) -> None:
    config = config_with(tmp_path)
    content = yaml.safe_load(config.read_text("utf-8"))
    content["http_options"] |= {"host": "0.0.0.0", "keep_alive_timeout_s": seconds}
    config.write_text(yaml.safe_dump(content), "utf-8")
    findings = json.loads(run("doctor", config, "--json").stdout)
    (found,) = [finding for finding in findings if finding["name"] == "keep-alive"]
    assert found["well"] is well and (well or "Google Cloud" in found["detail"])


@pytest.mark.parametrize(
    ("deployment", "changes", "generator", "words"),
    [
        ("Generator", {"ray_actor_options": {"num_gpus": 1}}, {"tensor_parallel_size": 2}, "num_gpus 1"),
        (
            "Retriever",
            {"num_replicas": None, "autoscaling_config": {"target_ongoing_requests": 64}},
            {},
            "is not below max_ongoing_requests 64",
        ),
    ],
    ids=["cards", "target"],
)
def test_the_doctor_sees_a_placement_that_could_never_work(
    deployment: str, changes: dict[str, Any], generator: dict[str, Any], words: str, tmp_path: Path
) -> None:
    config = config_with(tmp_path, generator=generator)
    content = yaml.safe_load(config.read_text("utf-8"))
    (placed,) = [d for d in content["applications"][0]["deployments"] if d["name"] == deployment]
    placed |= changes
    config.write_text(yaml.safe_dump(content), "utf-8")
    findings = json.loads(run("doctor", config, "--json").stdout)
    assert any(words in finding["detail"] and not finding["well"] for finding in findings)


@pytest.mark.parametrize("name", ["quality", "load", "attack", "drill"])
def test_a_benchmark_that_crag_has_too_is_the_same_command(name: str) -> None:
    registered = {command.callback for command in app.registered_commands}
    assert getattr(import_module(COMMANDS[name]), name) in registered
