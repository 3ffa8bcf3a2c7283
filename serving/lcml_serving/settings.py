"""Settings of the service: flags, else `LCML_SERVING_*` environment variables, else defaults; validated once, here."""

import argparse
import dataclasses
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lcml_serving import __version__
from lcml_serving.errors import SettingsError, short

PREFIX = "LCML_SERVING_"
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# What Kubernetes tells every container of a Service whose name begins with `lcml-serving`:
# LCML_SERVING_SERVICE_HOST, LCML_SERVING_PORT=tcp://10.0.0.1:8000, LCML_SERVING_PORT_8000_TCP_ADDR, ...
_SERVICE_LINK = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
LONGEST = 300  # characters of a path or name in a message
LOG_LEVELS = ("debug", "info", "warning", "error")
SWITCH = ("on", "off")


def _setting(default: Any, description: str, low: float = 0, high: float = 0, choices: tuple[str, ...] = ()) -> Any:
    about = {"help": description, "low": low, "high": high, "choices": choices}
    return dataclasses.field(default=default, metadata=about)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that can be set; a field `max_rows` is the flag --max-rows and the variable LCML_SERVING_MAX_ROWS."""

    paths: tuple[Path, ...]
    token: str | None = dataclasses.field(default=None, repr=False)
    host: str = _setting("127.0.0.1", "address to listen on")
    port: int = _setting(8000, "port to listen on; 0 takes a free one", 0, 65_535)
    grpc_port: int = _setting(-1, "port for gRPC beside HTTP, 0 takes a free one; -1 none", -1, 65_535)
    name: str = _setting("", "name of the model, where PATH is one file (default: the file's stem)")
    default_model: str = _setting("", "model that /invocations asks, where several are served")
    max_batch_size: int = _setting(256, "most examples in one run of a dynamic batch; 1 turns batching off", 1, 65_536)
    max_batch_delay_ms: float = _setting(0.0, "longest wait for a batch to fill", 0, 1_000)
    max_rows: int = _setting(4_096, "most examples in one request", 1, 1_048_576)
    max_explain_rows: int = _setting(64, "most examples in one explain request", 1, 65_536)
    max_body_bytes: int = _setting(16 * 2**20, "largest body, both as sent and decompressed", 1_024, 2**31)
    max_concurrency: int = _setting(256, "most requests in work at once; one more is answered 503", 1, 65_536)
    max_connections: int = _setting(8_192, "most open connections, fewer where `ulimit -n` is low", 1, 1_048_576)
    body_timeout_seconds: float = _setting(10.0, "longest wait for a request's head, then its body", 0.01, 3_600)
    intra_op_threads: int = _setting(1, "threads of onnxruntime within one run", 1, 1_024)
    instances: int = _setting(1, "runs of one model at the same time", 1, 256)
    token_file: str = _setting("", "file with the bearer token that requests must carry")
    require_signature: str = _setting("", "file with the public key that every model must be signed with")
    drift_rows: int = _setting(10_000, "latest rows that are held against the training data; 0 none", 0, 2**31)
    poll_seconds: float = _setting(0.0, "look for changed models this often; 0 never", 0, 86_400)
    drain_seconds: float = _setting(1.0, "after SIGTERM, stay this long up but not ready before closing", 0, 3_600)
    grace_seconds: int = _setting(30, "then let requests in flight run at most this long", 1, 3_600)
    log_level: str = _setting("info", "least severe log line", choices=LOG_LEVELS)
    access_log: str = _setting("on", "one log line per request", choices=SWITCH)


_OPTIONS = tuple(field for field in dataclasses.fields(Settings) if field.name not in ("paths", "token"))


def parse_settings(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Settings from the command line and the environment; the command line wins.

    Raises SettingsError, naming the flag and variable, for unknown variables, values out of range, settings that
    contradict each other, and paths that do not exist. `--help` and unknown flags end the process (argparse).
    """
    arguments = _parser().parse_args(argv)
    environ = without_service_links(environ)
    known = {variable(field.name) for field in _OPTIONS} | {PREFIX + "TOKEN", PREFIX + "PATH"}
    if unknown := sorted(key for key in environ if key.startswith(PREFIX) and key not in known):
        raise SettingsError(f"unknown variable {unknown[0][:LONGEST]}; expected one of {', '.join(sorted(known))}")
    values: dict[str, Any] = {}
    for field in _OPTIONS:
        text = getattr(arguments, field.name)
        text = environ.get(variable(field.name)) if text is None else text
        if text is not None:
            values[field.name] = _convert(field, text)
    texts = arguments.path or [text for text in environ.get(PREFIX + "PATH", "").split(os.pathsep) if text]
    settings = Settings(paths=tuple(Path(text) for text in texts), **values)
    _check(settings)
    return dataclasses.replace(settings, token=_token(settings, environ.get(PREFIX + "TOKEN")))


def without_service_links(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that Kubernetes puts there for Services; they are no settings."""

    def is_link(key: str, value: str) -> bool:
        is_address = key.endswith("_PORT") and _SERVICE_ADDRESS.match(value)
        return key.startswith(PREFIX) and bool(_SERVICE_LINK.fullmatch(key, len(PREFIX)) or is_address)

    return {key: value for key, value in environ.items() if not is_link(key, value)}


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    return PREFIX + name.upper()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lcml_serving",
        description="Serve exported logistic circuits over HTTP.",
        epilog=f"Every flag can be given as {PREFIX}FLAG, PATH as {PREFIX}PATH; the bearer token as {PREFIX}TOKEN.",
        allow_abbrev=False,
    )
    parser.add_argument("path", nargs="*", metavar="PATH", help="FILE.onnx, or a directory NAME/VERSION/model.onnx")
    parser.add_argument("--version", action="version", version=__version__)
    for field in _OPTIONS:
        shown = f" (default: {field.default})" if field.default != "" else ""
        choices = field.metadata["choices"]
        metavar = "{" + ",".join(choices) + "}" if choices else str(getattr(field.type, "__name__", field.type)).upper()
        parser.add_argument(flag(field.name), metavar=metavar, help=field.metadata["help"] + shown)
    return parser


def _convert(field: dataclasses.Field[Any], text: str) -> str | int | float:
    low, high, choices = (field.metadata[key] for key in ("low", "high", "choices"))
    place = f"{flag(field.name)} (or {variable(field.name)})"
    if field.type is str:
        if choices and text not in choices:
            raise SettingsError(f"{place}: expected one of {', '.join(choices)}, found {short(text)}")
        return text
    number = int if field.type is int else float
    kind = "an integer" if number is int else "a number"
    try:
        value = number(text)
    except ValueError:
        raise SettingsError(f"{place}: expected {kind} from {low} to {high}, found {short(text)}") from None
    if not low <= value <= high:
        raise SettingsError(f"{place}: expected {kind} from {low} to {high}, found {text[:LONGEST]}")
    return value


def _check(settings: Settings) -> None:
    if not settings.paths:
        raise SettingsError(f"nothing to serve: give PATH (FILE.onnx or a model repository) or set {PREFIX}PATH")
    for path in settings.paths:
        if not os.path.isfile(path) and not os.path.isdir(path):  # unlike Path's, false for a name that is too long
            name = str(path)[:LONGEST]
            raise SettingsError(f"{name} does not exist; expected a FILE.onnx or a directory NAME/VERSION/model.onnx")
    if settings.name and (len(settings.paths) != 1 or not settings.paths[0].is_file()):
        raise SettingsError("--name names one model file; the models of a repository are named by their directories")
    if settings.name and not MODEL_NAME.fullmatch(settings.name):
        raise SettingsError(f"--name: expected letters, digits, '.', '_' and '-', found {short(settings.name)}")
    if settings.grpc_port >= 0 and importlib.util.find_spec("grpc") is None:
        raise SettingsError("--grpc-port needs the package grpcio; install the extra grpc, or leave the flag out")
    if settings.require_signature and importlib.util.find_spec("cryptography") is None:
        raise SettingsError("--require-signature needs the package cryptography; install the extra verify")
    if not settings.host:
        raise SettingsError("--host: expected an address such as 127.0.0.1 or 0.0.0.0, found nothing")


def _token(settings: Settings, token: str | None) -> str | None:
    place = PREFIX + "TOKEN"
    if settings.token_file:
        if token is not None:
            raise SettingsError(f"{PREFIX}TOKEN and --token-file are both set; keep one")
        place = settings.token_file
        try:
            token = Path(settings.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--token-file {settings.token_file} cannot be read: {error}") from error
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise SettingsError(f"{place}: the token is empty or holds spaces or non-ASCII characters; choose another")
    return token
