"""The files of docs/deploy say what the service and the Dockerfile say."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lcml_serving.app import create_app
from lcml_serving.service import Service
from lcml_serving.settings import Settings, parse_settings
from tests.serving.onnx_models import write_model

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IMAGE = DOCKERFILE[DOCKERFILE.index(" AS serving\n") :]
ENVIRON = dict(re.findall(r"(LCML_SERVING_\w+)=(\S+)", IMAGE))


def _read(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    write_model(root / "iris/1/model.onnx")
    return root


@pytest.fixture(scope="module")
def paths(models: Path) -> Iterator[set[str]]:
    """What the service answers."""
    service = Service(Settings(paths=(models,)))
    yield {route.path for route in create_app(service).routes}  # type: ignore[attr-defined]
    service.close()


def test_kserve(models: Path, paths: set[str]) -> None:
    runtime, served = _read("kserve.yaml")
    assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime")
    assert (served["apiVersion"], served["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container"  # by which KServe finds it
    name = served["metadata"]["name"]
    told = [
        each.replace("{{.Name}}", name).replace("/mnt/models", str(models / "iris/1")) for each in container["args"]
    ]
    settings = parse_settings(told, ENVIRON)
    assert (settings.name, settings.host) == (name, "0.0.0.0")
    assert settings.drain_seconds + settings.grace_seconds < 30  # Kubernetes' terminationGracePeriodSeconds
    (port,) = container["ports"]
    probes = [container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")]
    annotations = runtime["spec"]["annotations"]
    scraped = {"path": annotations["prometheus.kserve.io/path"], "port": int(annotations["prometheus.kserve.io/port"])}
    for asked in (*probes, scraped):
        assert asked["port"] == settings.port == port["containerPort"]
        assert asked["path"] in paths
    assert container["securityContext"]["runAsNonRoot"]
    assert re.search(r"^USER \d+:\d+$", IMAGE, re.MULTILINE)  # a name would not tell Kubernetes that it is not root
    model = served["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in {each["name"] for each in runtime["spec"]["supportedModelFormats"]}
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]


def test_compose(models: Path, paths: set[str]) -> None:
    (compose,) = _read("compose.yaml")
    services = compose["services"]
    for service in services.values():
        for host, *_ in (volume.split(":") for volume in service["volumes"] if volume.startswith(".")):
            assert (DEPLOY / host).exists()
        if "build" in service:
            assert f" AS {service['build']['target']}\n" in DOCKERFILE
            assert (DEPLOY / service["build"]["context"] / "Dockerfile").samefile(ROOT / "Dockerfile")
    serving = services["serving"]
    settings = parse_settings([str(models)], {**ENVIRON, **serving["environment"]})
    assert serving["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"]
    assert f"EXPOSE {settings.port}\n" in IMAGE
    (volume,) = serving["volumes"]
    assert volume.endswith(f":{ENVIRON['LCML_SERVING_PATH']}:ro")
    (prometheus,) = _read("prometheus.yaml")
    (job,) = prometheus["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"serving:{settings.port}"]}]
    assert job.get("metrics_path", "/metrics") in paths
    mounted = {target: DEPLOY / host for host, target, _ in (v.split(":") for v in services["prometheus"]["volumes"])}
    assert mounted["/etc/prometheus/prometheus.yml"].name == "prometheus.yaml"
    assert mounted[f"/etc/prometheus/{prometheus['rule_files'][0]}"].samefile(ROOT / "docs/monitoring/alerts.yaml")


def test_docker_understands_compose() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    subprocess.run([docker, "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"], check=True)
