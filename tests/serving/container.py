"""Run an image under runc and try it: the second half of tests/container.sh.

python -m tests.serving.container TARGET IMAGE.json ROOT BUNDLE
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.serving.onnx_models import PROBABILITIES, X, write_model

HEALTH = ["CMD", "python3", "-m", "lcml_serving.health"]
_WAIT_SECONDS = 60


def main(target: str, image: Path, root: Path, bundle: Path) -> None:
    """Check the image of one target."""
    config = json.loads(image.read_text())["Docker"]["config"]
    assert config["User"] == "65532:65532", config["User"]
    assert "ORT_DISABLE_TELEMETRY=1" in config["Env"]
    assert config["StopSignal"] == "SIGTERM"
    if target == "train":
        done = _run(config, root, bundle, [*config["Entrypoint"], "--help"])
        assert done.wait(_WAIT_SECONDS) == 0
        done = _run(config, root, bundle, ["python3", "-c", "import numba, mlflow, pyarrow, onnxruntime"])
        assert done.wait(_WAIT_SECONDS) == 0
    else:
        if target == "serving":  # which the format of an OCI layout does not have
            assert config["Healthcheck"]["Test"] == HEALTH
        _check_serving(config, root, bundle, with_model=target == "model")
    print(f"container {target}: ok, {_megabytes(root)} MB with the base image")


def _check_serving(config: dict[str, Any], root: Path, bundle: Path, *, with_model: bool) -> None:
    models = bundle / "models"
    write_model(models / "iris/1/model.onnx", explain=True)
    for place in (bundle, models, *models.rglob("*")):  # the image's user is not this one
        place.chmod(0o755 if place.is_dir() else 0o644)
    port = _free_port()
    environ = [f"LCML_SERVING_PORT={port}", "LCML_SERVING_HOST=127.0.0.1"]
    process = _run(config, root, bundle, config["Entrypoint"], environ=environ, models=None if with_model else models)
    name = bundle.parent.name
    try:
        _wait_until_ready(port, process)
        _infer(port)
        _infer_large(port)
        _exec(name, *HEALTH[1:])
        absent = ["lcml", "mlflow", "scipy", "sklearn", "onnx", "pip"]
        code = f"from importlib.util import find_spec\nassert not [m for m in {absent} if find_spec(m)]"
        _exec(name, "python3", "-c", code)
        _exec(name, "python3", "-c", "import os\nassert os.getuid() == 65532")
        _exec(
            name, "python3", "-c", "try: open('/opt/serving/x', 'w')\nexcept OSError: pass\nelse: raise SystemExit(1)"
        )
    finally:
        subprocess.run(["runc", "kill", name, "TERM"], check=True)
        code_at_end = process.wait(_WAIT_SECONDS)
    assert code_at_end == 0, code_at_end


def _infer(port: int) -> None:
    import tritonclient.http as triton

    with contextlib.closing(triton.InferenceServerClient(f"127.0.0.1:{port}")) as client:
        assert client.is_model_ready("iris")
        tensor = triton.InferInput("features", [len(X), 4], "FP32")
        tensor.set_data_from_numpy(np.array(X, np.float32))
        result = client.infer("iris", [tensor])
        assert result.as_numpy("label").tolist() == [10, 30, 20]
        np.testing.assert_allclose(result.as_numpy("probabilities"), PROBABILITIES, atol=1e-6)


def _infer_large(port: int) -> None:
    """A body that a worker process reads."""
    address = f"http://127.0.0.1:{port}/invocations"
    body, headers = json.dumps({"inputs": X * 1000}).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=_WAIT_SECONDS) as answer:
        assert json.load(answer)["predictions"]["label"] == [10, 30, 20] * 1000


def _run(
    config: dict[str, Any],
    root: Path,
    bundle: Path,
    arguments: Sequence[str],
    *,
    environ: Sequence[str] = (),
    models: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start the image in this machine's network; the bundle's parent names the container."""
    bundle.mkdir(exist_ok=True)
    os.chmod(bundle.parent, 0o755)
    (bundle / "config.json").unlink(missing_ok=True)  # of a run before
    subprocess.run(["runc", "spec", "--bundle", str(bundle)], check=True)
    spec = json.loads((bundle / "config.json").read_text())
    user, group = (int(number) for number in config["User"].split(":"))
    spec["process"].update(
        terminal=False,
        user={"uid": user, "gid": group},
        args=list(arguments),
        cwd=config.get("WorkingDir") or "/",
        env=[*config["Env"], *environ],
    )
    spec["root"] = {"path": str(root), "readonly": True}
    if models is not None:
        options = ["rbind", "ro"]
        spec["mounts"].append({"destination": "/models", "type": "bind", "source": str(models), "options": options})
    spec["linux"]["namespaces"] = [space for space in spec["linux"]["namespaces"] if space["type"] != "network"]
    (bundle / "config.json").write_text(json.dumps(spec))
    return subprocess.Popen(["runc", "run", "--bundle", str(bundle), bundle.parent.name], stdin=subprocess.DEVNULL)


def _exec(name: str, *command: str) -> None:
    subprocess.run(["runc", "exec", name, *command], check=True, timeout=_WAIT_SECONDS)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, f"the container ended with exit code {process.returncode}"
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _megabytes(root: Path) -> int:
    return sum(file.lstat().st_size for file in _files(root)) // 1_000_000


def _files(root: Path) -> Iterator[Path]:
    return (Path(directory) / name for directory, _, names in os.walk(root) for name in names)


if __name__ == "__main__":
    main(sys.argv[1], *(Path(argument) for argument in sys.argv[2:]))
