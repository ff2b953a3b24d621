"""The Kubernetes manifests: valid by their schemas, true to the config, and with time to drain."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import ray
import yaml
from ray.serve.schema import ServeDeploySchema

from deployments.local import app_settings, load_config
from ops.kuberay.embed_config import embedded

ROOT = Path(__file__).parents[2]
KUBERAY = ROOT / "ops/kuberay"
SERVICE: dict[str, Any] = yaml.safe_load((KUBERAY / "rayservice.yaml").read_text("utf-8"))
CLUSTER = SERVICE["spec"]["rayClusterConfig"]
WORKERS = {group["groupName"]: group for group in CLUSTER["workerGroupSpecs"]}
KUBERNETES = "1.31"


def groups() -> Iterator[Mapping[str, Any]]:
    yield CLUSTER["headGroupSpec"]
    yield from WORKERS.values()


def container(group: Mapping[str, Any]) -> Mapping[str, Any]:
    (only,) = group["template"]["spec"]["containers"]
    found: Mapping[str, Any] = only
    return found


def test_the_rayservice_has_the_fields_of_its_kind_and_no_others() -> None:
    schema = json.loads(Path(__file__).with_name("rayservice.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(SERVICE)


def test_every_pod_is_one_by_kubernetes_own_schema() -> None:
    for group in groups():
        pod = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "x"},
            "template": group["template"],
        }
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_a_pod_with_a_misspelt_field_would_be_found() -> None:
    template = json.loads(json.dumps(WORKERS["cpu"]["template"]))
    template["spec"]["terminationGracePeriodSecond"] = 1
    pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_everything_else_is_valid_too() -> None:
    for path in KUBERAY.glob("*.yaml"):
        for manifest in yaml.safe_load_all(path.read_text("utf-8")):
            if manifest["apiVersion"] != "ray.io/v1":
                kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_it_serves_the_production_config() -> None:
    service = (KUBERAY / "rayservice.yaml").read_text("utf-8")
    config = (ROOT / "serve_config.yaml").read_text("utf-8")
    assert service == embedded(service, config), "run `make kuberay`"
    served = ServeDeploySchema.model_validate(yaml.safe_load(SERVICE["spec"]["serveConfigV2"]))
    assert served == load_config(ROOT / "serve_config.yaml")


def test_its_ray_is_the_one_that_is_locked() -> None:
    assert CLUSTER["rayVersion"] == ray.__version__


def test_a_worker_ends_only_when_its_requests_have() -> None:
    settings = app_settings(load_config(ROOT / "serve_config.yaml"))
    for group in WORKERS.values():
        drain_s = int(container(group)["lifecycle"]["preStop"]["exec"]["command"][-1])
        grace_s = group["template"]["spec"]["terminationGracePeriodSeconds"]
        assert settings.api.max_timeout_s < drain_s < grace_s
        for deployment in load_config(ROOT / "serve_config.yaml").applications[0].deployments:
            assert deployment.graceful_shutdown_timeout_s == drain_s


def test_liveness_asks_the_raylet_and_readiness_the_proxy() -> None:
    for group in WORKERS.values():
        alive = " ".join(container(group)["livenessProbe"]["exec"]["command"])
        serves = " ".join(container(group)["readinessProbe"]["exec"]["command"])
        assert "local_raylet_healthz" in alive and "/-/healthz" in serves


def test_every_deployment_finds_a_group_that_can_hold_it() -> None:
    for deployment in load_config(ROOT / "serve_config.yaml").applications[0].deployments:
        options = deployment.ray_actor_options
        cpus, gpus = getattr(options, "num_cpus", 1), getattr(options, "num_gpus", None) or 0
        limits = [container(group)["resources"]["limits"] for group in WORKERS.values()]
        assert any(
            int(limit["cpu"]) >= cpus and int(limit.get("nvidia.com/gpu", 0)) >= gpus for limit in limits
        ), deployment.name


def test_keys_lie_where_the_config_looks_for_them() -> None:
    keys_file = app_settings(load_config(ROOT / "serve_config.yaml")).api.access.keys_file
    assert keys_file is not None
    for group in groups():
        mounts = [mount["mountPath"] for mount in container(group)["volumeMounts"]]
        assert str(Path(keys_file).parent) in mounts


def test_every_file_that_the_images_copy_is_there() -> None:
    dockerfile = (ROOT / "ops/docker/Dockerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", dockerfile, re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert len(sources) > 10
    assert [source for source in sources if not (ROOT / source).exists()] == []
    ignored = (ROOT / "ops/docker/Dockerfile.dockerignore").read_text("utf-8")
    assert all(f"!{source.split('/')[0]}" in ignored for source in sources)


def test_both_images_have_what_the_pods_call() -> None:
    dockerfile = (ROOT / "ops/docker/Dockerfile").read_text("utf-8")
    assert re.findall(r"^FROM \S+ AS (\w+)", dockerfile, re.MULTILINE) == ["base", "cpu", "gpu"]
    assert "/usr/local/bin/crag-drain" in dockerfile and " wget" in dockerfile
