"""The wheel, installed into an environment that has nothing else of ours."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.release

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_packages_their_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top == {"crag_core", "deployments", "explainability", "benchmarks", "training"}
    assert "deployments/evaluators/minilm-head/evaluator.json" in names
    assert "deployments/evaluators/minilm-head/head.safetensors" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel, at the versions of the lock."""
    folder = tmp_path_factory.mktemp("clean")
    pins = re.findall(r"^\S+==\S+", (ROOT / "requirements/cpu.lock").read_text("utf-8"), re.MULTILINE)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins), "utf-8")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    install = [programs / "python", "-m", "pip", "install", "--quiet", "-c", str(constraints), wheel]
    subprocess.run(install, check=True, capture_output=True, cwd=folder)
    return programs


def test_the_doctor_runs_and_names_what_the_bare_wheel_lacks(installed: Path, tmp_path: Path) -> None:
    run = subprocess.run([installed / "crag", "doctor"], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    assert "ok crag-serve" in run.stdout
    assert re.search(r"no torch: not installed\s+-> install the extra", run.stdout)
    assert "Traceback" not in run.stderr


def test_asking_without_a_server_says_how_to_start_one(installed: Path, tmp_path: Path) -> None:
    ask = [installed / "crag", "ask", "Who?", "--url", "http://127.0.0.1:9"]
    run = subprocess.run(ask, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert "crag serve" in run.stderr
