"""The application on this machine: a Ray cluster of its own, started, waited for, stopped."""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
import yaml
from pydantic import ValidationError
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ApplicationStatus, ServeDeploySchema

from crag_core.errors import SettingsError
from deployments.settings import AppSettings

_POLL_S = 0.5


def load_config(path: Path, port: int | None = None, host: str | None = None) -> ServeDeploySchema:
    """A Serve config file, checked; `port` and `host` replace its own. Raises SettingsError."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read config {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"config {path} is not YAML: {error}") from error
    given = {"port": port, "host": host}
    if isinstance(content, dict) and any(value is not None for value in given.values()):
        http = content.setdefault("http_options", {})
        http |= {name: value for name, value in given.items() if value is not None}
    try:
        return ServeDeploySchema.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"config {path} is not a Serve config file: {error}") from error


def app_settings(config: ServeDeploySchema) -> AppSettings:
    """The settings in the config's `args:`; raises SettingsError that names what is wrong."""
    args = config.applications[0].args if config.applications else {}
    try:
        return AppSettings.model_validate(args)
    except ValidationError as error:
        raise SettingsError(f"the settings under `args:` are not valid: {error}") from error


def refuse_port_in_use(host: str, port: int) -> None:
    """Raise SettingsError when something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingsError(
                f"port {port} on {host} cannot be used ({error.strerror}): "
                "stop what listens there, or choose another with --port"
            ) from error


def start(config: ServeDeploySchema, *, verbose: bool = False) -> None:
    """Start Ray on this machine and hand it the application; replicas come up in the background."""
    set_environment()
    if verbose:
        os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "1")  # which its throughput mode leaves out
    else:
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
    ray.init(
        address="local",
        namespace="serve",
        num_cpus=max(2, os.cpu_count() or 2),
        include_dashboard=False,
        log_to_driver=verbose,
        logging_level=logging.INFO if verbose else logging.ERROR,
    )
    deploy(config)


def set_environment() -> None:
    """What a cluster on one's own machine is told by its environment, unless that says otherwise."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # on a busy machine the HTTP proxy needs longer to start than the 5 s after which Serve kills it
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
    # calls between replicas over gRPC, in one event loop each: half the cost of serving; the ingress
    # stays behind Ray's proxy, and so listens where the config says and nowhere else
    os.environ.setdefault("RAY_SERVE_THROUGHPUT_OPTIMIZED", "1")
    os.environ.setdefault("RAY_SERVE_ENABLE_DIRECT_INGRESS", "0")


def deploy(config: ServeDeploySchema) -> None:
    """Hand the application, new or changed, to Serve on the cluster this process is connected to."""
    # Serve waits 60 s for its HTTP proxy, which a busy machine may exceed; it comes up all the same
    with suppress(TimeoutError):
        serve.start(proxy_location=config.proxy_location, http_options=config.http_options.model_dump())
    controller = _get_global_client()
    assert controller is not None, "serve.start has just connected"
    controller.deploy_apps(config)


def wait_until_running(on_change: Callable[[Mapping[str, str]], None]) -> None:
    """Return once every deployment is healthy.

    Calls `on_change` with the deployments' states whenever one changes. Raises SettingsError with
    the replica's own sentence when a deployment cannot start.
    """
    seen: dict[str, str] = {}
    while True:
        states: dict[str, str] = {}
        applications = serve.status().applications
        for application in applications.values():
            if application.status is ApplicationStatus.DEPLOY_FAILED:
                raise SettingsError(_reason(application))
            for name, deployment in application.deployments.items():
                states[name] = deployment.status.value
                failure = _settings_error(deployment.message)
                if failure is not None:
                    raise SettingsError(f"{name} cannot start: {failure}")
        if states != seen:
            on_change(states)
            seen = states
        if applications and all(
            application.status is ApplicationStatus.RUNNING for application in applications.values()
        ):
            return
        time.sleep(_POLL_S)


def stop() -> None:
    """Stop the application and the cluster."""
    if ray.is_initialized():  # else Serve would look for some other cluster to shut down
        serve.shutdown()  # type: ignore[no-untyped-call]  # Serve does not annotate it
        ray.shutdown()


def _settings_error(message: str) -> str | None:
    """The sentence of a SettingsError in a replica's traceback."""
    for line in reversed(message.splitlines()):
        _, found, sentence = line.partition("SettingsError: ")
        if found:
            return sentence.strip()
    return None


def _reason(application: Any) -> str:
    messages = [application.message, *(d.message for d in application.deployments.values())]
    for message in messages:
        sentence = _settings_error(message)
        if sentence is not None:
            return sentence
    lines = [line for message in messages for line in message.splitlines() if line.strip()]
    return f"the application could not be deployed: {lines[-1] if lines else 'no reason given'}"
