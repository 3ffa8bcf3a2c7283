"""Settings from flags and environment, and what the command says when they are wrong."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lcml_serving
import lcml_serving.health
from lcml_serving.errors import SettingsError
from lcml_serving.settings import Settings, flag, parse_settings, without_service_links
from tests.forked import Forked
from tests.serving.onnx_models import write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "iris.onnx")


def test_flags_win_over_the_environment_and_that_over_defaults(model: Path) -> None:
    environ = {"LCML_SERVING_PORT": "9000", "LCML_SERVING_MAX_ROWS": "7", "LCML_SERVING_TOKEN": "secret", "HOME": "/"}
    settings = parse_settings([str(model), "--port", "9001"], environ)
    assert (settings.port, settings.max_rows, settings.token, settings.paths) == (9001, 7, "secret", (model,))
    assert settings.max_concurrency == Settings(paths=()).max_concurrency
    assert "secret" not in repr(settings)


def test_paths_and_token_file_from_the_environment(model: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    environ = {
        "LCML_SERVING_PATH": os.pathsep.join([str(model), str(tmp_path)]),
        "LCML_SERVING_TOKEN_FILE": str(tmp_path / "token"),
    }
    settings = parse_settings([], environ)
    assert (settings.paths, settings.token) == ((model, tmp_path), "from-file")


LINKS = {
    "LCML_SERVING_SERVICE_HOST": "10.0.0.1",
    "LCML_SERVING_SERVICE_PORT": "8000",
    "LCML_SERVING_SERVICE_PORT_HTTP": "8000",
    "LCML_SERVING_PORT": "tcp://10.0.0.1:8000",
    "LCML_SERVING_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "LCML_SERVING_PORT_8000_TCP_PROTO": "tcp",
    "LCML_SERVING_PORT_8000_TCP_PORT": "8000",
    "LCML_SERVING_PORT_8000_TCP_ADDR": "10.0.0.1",
    "LCML_SERVING_CANARY_SERVICE_HOST": "10.0.0.2",
    "LCML_SERVING_CANARY_PORT": "udp://10.0.0.2:53",
    "LCML_SERVING_CANARY_PORT_53_UDP_ADDR": "10.0.0.2",
}
"""What Kubernetes puts into every pod beside Services named lcml-serving and lcml-serving-canary."""


def test_service_links_are_no_settings(model: Path) -> None:
    assert parse_settings([str(model)], LINKS) == parse_settings([str(model)], {})
    assert without_service_links({**LINKS, "LCML_SERVING_MAX_ROWS": "7"}) == {"LCML_SERVING_MAX_ROWS": "7"}
    for key, value in (
        ("LCML_SERVING_PORTS", "1"),
        ("LCML_SERVING_CANARY_PORT", "8000"),
        ("LCML_SERVING_PORT_TCP", "x"),
        ("LCML_SERVING_PORT_80_FTP", "x"),
        ("LCML_SERVING_SERVICE", "x"),
    ):
        with pytest.raises(SettingsError, match=f"unknown variable {key}"):
            parse_settings([str(model)], {**LINKS, key: value})


@pytest.mark.parametrize(("given", "port"), [(None, 8000), ("tcp://10.0.0.1:80", 8000), ("", 8000), ("9000", 9000)])
def test_the_health_check_asks_the_port_of_the_settings(
    given: str | None, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Connection:
        def __init__(self, host: str, port: int, timeout: float) -> None:
            asked.append(port)

        def request(self, method: str, path: str) -> None:
            raise OSError

        def close(self) -> None:
            pass

    monkeypatch.setattr("http.client.HTTPConnection", Connection)
    monkeypatch.delenv("LCML_SERVING_PORT", raising=False)
    if given is not None:
        monkeypatch.setenv("LCML_SERVING_PORT", given)
    assert lcml_serving.health.main() == 1
    assert asked == [port]


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (
            ["MODEL", "--port", "x"],
            {},
            r"--port \(or LCML_SERVING_PORT\): expected an integer from 0 to 65535, found 'x'",
        ),
        (["MODEL", "--port", "65536"], {}, "expected an integer from 0 to 65535, found 65536"),
        (["MODEL", "--poll-seconds", "nan"], {}, "--poll-seconds .* expected a number from 0 to 86400, found nan"),
        (["MODEL", "--max-batch-size", "0"], {}, "--max-batch-size .* from 1 to"),
        (["MODEL", "--log-level", "loud"], {}, "expected one of debug, info, warning, error, found 'loud'"),
        (["MODEL", "--name", "a/b"], {}, "--name: expected letters"),
        (["MODEL", "--host", ""], {}, "--host: expected an address"),
        (["MODEL"], {"LCML_SERVING_MAX_ROW": "7"}, "unknown variable LCML_SERVING_MAX_ROW; expected one of"),
        (["MODEL"], {"LCML_SERVING_INSTANCES": "many"}, r"\(or LCML_SERVING_INSTANCES\): expected an integer"),
        (["MODEL"], {"LCML_SERVING_TOKEN": ""}, "LCML_SERVING_TOKEN: the token is empty"),
        (["MODEL", "--token-file", "MODEL"], {"LCML_SERVING_TOKEN": "a"}, "both set; keep one"),
        (["MODEL", "--token-file", "/nowhere/token"], {}, "--token-file /nowhere/token cannot be read"),
        (["MODEL", "--port", "9" * 5000], {}, r"expected an integer from 0 to 65535, found '9{56}\.\.\.$"),
        (["/" + "x" * 5000], {}, "x{299} does not exist; expected a FILE.onnx"),
        (["/dev/null"], {}, "/dev/null does not exist|expected a FILE.onnx"),
        ([], {}, "nothing to serve"),
        (["/nowhere/model.onnx"], {}, "/nowhere/model.onnx does not exist"),
        (["DIRECTORY", "--name", "iris"], {}, "--name names one model file"),
    ],
)
def test_wrong_settings_name_the_culprit(
    arguments: list[str], environ: dict[str, str], message: str, model: Path, tmp_path: Path
) -> None:
    places = {"MODEL": str(model), "DIRECTORY": str(tmp_path)}
    with pytest.raises(SettingsError, match=message):
        parse_settings([places.get(argument, argument) for argument in arguments], environ)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["DIRECTORY"], "no model in"),
        (["TEXT"], "is not a model that onnxruntime can load"),
        (["MODEL", "--host", "256.0.0.1"], "cannot listen on 256.0.0.1"),
        (["MODEL", "MODEL"], "two models are named 'iris'"),
        (["MODEL", "--default-model", "rose"], "--default-model rose is not served; expected one of iris"),
        (["MODEL", "--prot", "1"], "unrecognized arguments: --prot"),
    ],
)
def test_the_command_exits_with_2_and_one_clear_line(
    arguments: list[str], message: str, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.onnx").write_text("not a model")
    (tmp_path / "empty").mkdir()
    places = {"MODEL": model, "DIRECTORY": tmp_path / "empty", "TEXT": tmp_path / "text.onnx"}
    process = Forked("-m", "lcml_serving", *(str(places.get(argument, argument)) for argument in arguments))
    _, err = process.communicate()
    assert process.returncode == 2
    assert message in err
    assert "Traceback" not in err


def test_the_package_needs_neither_lcml_nor_mlflow_and_turns_telemetry_off() -> None:
    code = (
        "import sys, os, lcml_serving.server, lcml_serving.__main__\n"
        "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'\n"
        "absent = {'lcml', 'mlflow', 'onnx', 'scipy', 'sklearn', 'grpc', 'cryptography', 'opentelemetry'}\n"
        "assert not absent & set(sys.modules)\n"
    )
    environ = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)


def test_the_documentation_names_every_setting_and_its_default() -> None:
    text = (Path(__file__).parents[2] / "docs/serving.md").read_text()
    for field in dataclasses.fields(Settings):
        if field.name in ("paths", "token", "token_file"):
            continue
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{flag(field.name)}` |"))
        if field.default != "":
            default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
            assert row.split("|")[2].split(",")[0].strip(" `") == default


def test_the_version_is_the_distributions() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    assert f'version = "{lcml_serving.__version__}"' in pyproject.read_text()
