"""Signed models: what `lcml sign` writes the tool of OpenSSF verifies too; what has changed since is not served."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import lcml_serving.logs
from lcml_serving.__main__ import main
from lcml_serving.errors import ConflictError, ModelError, SettingsError
from lcml_serving.service import Service
from lcml_serving.settings import parse_settings
from tests.cli.commands import output, refused
from tests.serving.onnx_models import write_model

FILES = ("model.onnx", "model.explain.json")


def _write_keys(place: Path, private: Any, encryption: KeySerializationEncryption | None = None) -> None:
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    place.with_suffix(".private").write_bytes(pem)
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    place.with_suffix(".public").write_bytes(pem)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """own and other (P-256), large (P-521, with the password "word"), rsa, koblitz: NAME.private, NAME.public."""
    place = tmp_path_factory.mktemp("keys")
    for name, curve in (("own", ec.SECP256R1()), ("other", ec.SECP256R1()), ("koblitz", ec.SECP256K1())):
        _write_keys(place / name, ec.generate_private_key(curve))
    _write_keys(place / "large", ec.generate_private_key(ec.SECP521R1()), BestAvailableEncryption(b"word"))
    _write_keys(place / "rsa", rsa.generate_private_key(65537, 2048))
    (place / "password").write_text("word\n")
    return place


@pytest.fixture
def model(tmp_path: Path, keys: Path) -> Path:
    """A signed model that explains, in a repository."""
    path = write_model(tmp_path / "iris/1/model.onnx", explain=True)
    told = output("sign", tmp_path, "--key", keys / "own.private")
    assert told == f"{path}.sig: signs model.onnx and model.explain.json\n"
    return path


@pytest.fixture
def serve(keys: Path) -> Iterator[Callable[..., Service]]:
    """Services in this process."""
    services: list[Service] = []

    def start(path: Path, key: str = "own.public") -> Service:
        services.append(Service(parse_settings([str(path)], {"LCML_SERVING_REQUIRE_SIGNATURE": str(keys / key)})))
        return services[-1]

    yield start
    for service in services:
        service.close()


def _flip(path: Path) -> None:
    """Change one bit of a byte in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_openssf_verifies_what_is_signed(model: Path, keys: Path) -> None:
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(model.parent), "--ignore_unsigned_files"]
    command += ["--signature", f"{model}.sig", "--public_key", str(keys / "own.public")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    _flip(model.with_name("model.explain.json"))
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_what_openssf_signs_is_served(tmp_path: Path, keys: Path, serve: Callable[..., Service]) -> None:
    from model_signing import signing

    path = write_model(tmp_path / "iris/1/model.onnx", explain=True)
    signer = signing.Config().use_elliptic_key_signer(private_key=keys / "large.private", password=b"word")
    signer.sign(path.parent, Path(f"{path}.sig"))  # every file of the directory
    assert serve(tmp_path, "large.public").ready


def test_a_key_with_a_password_and_a_single_file(tmp_path: Path, keys: Path, serve: Callable[..., Service]) -> None:
    path = write_model(tmp_path / "iris.onnx")
    key = "--key", keys / "large.private"
    assert "its password" in refused("sign", path, *key)
    assert not Path(f"{path}.sig").exists()
    assert output("sign", path, *key, "--password-file", keys / "password") == f"{path}.sig: signs iris.onnx\n"
    assert serve(path, "large.public").ready


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_refused_at_start_and_at_reload(
    name: str, model: Path, serve: Callable[..., Service], caplog: pytest.LogCaptureFixture
) -> None:
    service = serve(model.parents[2])
    before = service.repository.get("iris")
    content = model.with_name(name).read_bytes()
    _flip(model.with_name(name))
    changed = f"{model.with_name(name)} is not what was signed: its content has changed; take the files as they were"
    with pytest.raises(ConflictError, match="the versions loaded before stay") as refusal:
        asyncio.run(service.repository.reload("iris"))
    assert changed in str(refusal.value)
    assert service.repository.get("iris") is before
    assert b'lcml_model_loads_total{model="iris",result="failed"} 1.0' in service.render_metrics()
    (line,) = (record for record in caplog.records if record.message == "model not loaded")
    assert changed in vars(line)["reason"]
    with pytest.raises(ModelError, match="its content has changed"):
        serve(model.parents[2])
    model.with_name(name).write_bytes(content)
    asyncio.run(service.repository.reload("iris"))
    assert service.repository.get("iris") is not before


def test_files_that_come_and_go(model: Path, keys: Path, serve: Callable[..., Service]) -> None:
    service, sidecar = serve(model.parents[2]), model.with_name("model.explain.json")
    before = service.repository.get("iris")
    content = sidecar.read_bytes()
    sidecar.unlink()
    with pytest.raises(ConflictError, match=r"model\.explain\.json was signed with model\.onnx, but is not there"):
        asyncio.run(service.repository.reload("iris"))
    output("sign", model, "--key", keys / "own.private")
    asyncio.run(service.repository.reload())  # the signature is part of what tells a changed model
    assert service.repository.get("iris") is not before
    sidecar.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.explain\.json is not signed by model\.onnx\.sig"):
        serve(model.parents[2])
    Path(f"{model}.sig").unlink()
    with pytest.raises(ModelError, match=r"model\.onnx is not signed: model\.onnx\.sig is missing beside it"):
        serve(model.parents[2])


def test_what_was_checked_is_what_is_loaded(
    model: Path, serve: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both files are replaced between the check and the load."""
    from lcml_serving.signing import Verifier

    check = Verifier.check

    def check_then_replace(*arguments: Any) -> None:
        check(*arguments)
        write_model(model, bias=[9.0, 9.0, 9.0])
        model.with_name("model.explain.json").write_text('{"conditions": ["forged"]}')

    monkeypatch.setattr(Verifier, "check", check_then_replace)
    served = serve(model.parents[2]).repository.get("iris").model
    assert served.conditions is not None
    assert served.conditions[0] == "a"
    assert served.run(["logits"], _zeros())[0].tolist() == [[0.0, 0.5, -1.0]]  # the bias that was signed


def _zeros() -> Any:
    import numpy as np

    return np.zeros((1, 4), np.float32)


def _edited(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    bundle = json.loads(path.read_text())
    change(bundle)
    path.write_text(json.dumps(bundle))


def _payload(bundle: dict[str, Any], before: bytes, after: bytes) -> None:
    envelope = bundle["dsseEnvelope"]
    envelope["payload"] = base64.b64encode(base64.b64decode(envelope["payload"]).replace(before, after)).decode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.write_bytes(b""), "is no signature of OpenSSF"),
        (lambda path: path.write_bytes(b"[" * 100_000), "is no signature of OpenSSF"),
        (lambda path: path.write_bytes(b"\xff{}"), "is no signature of OpenSSF"),
        (lambda path: path.write_bytes(b"[]"), "is no signature of OpenSSF"),
        (lambda path: _edited(path, lambda b: b.pop("dsseEnvelope")), "is no signature of OpenSSF"),
        (lambda path: _edited(path, lambda b: b.update(mediaType="x")), "is no signature of OpenSSF"),
        (lambda path: _edited(path, lambda b: b["dsseEnvelope"].update(signatures=[])), "is no signature of OpenSSF"),
        (lambda path: _edited(path, lambda b: b["dsseEnvelope"].update(payload="%")), "is no signature of OpenSSF"),
        (lambda path: _edited(path, lambda b: _payload(b, b"model.onnx", b"other.onnx")), "or has changed"),
    ],
)
def test_a_malformed_signature(
    change: Callable[[Path], Any], said: str, model: Path, serve: Callable[..., Service]
) -> None:
    change(Path(f"{model}.sig"))
    with pytest.raises(ModelError, match=said) as refusal:
        serve(model.parents[2])
    assert f"{model}.sig" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("own.private", "found a private key"),
        ("rsa.public", "found something else"),
        ("koblitz.public", "found something else"),
        ("password", "found something else"),
        ("nothing", "cannot be read: No such file"),
    ],
)
def test_a_key_that_cannot_verify(key: str, said: str, model: Path, serve: Callable[..., Service]) -> None:
    with pytest.raises(SettingsError, match=said):
        serve(model.parents[2], key)


def test_the_command_says_in_one_line_what_is_refused(
    model: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lcml_serving.logs, "configure_logging", lambda _: None)
    assert main([str(model.parents[2]), "--require-signature", str(keys / "other.public")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"lcml_serving: {model}.sig was not made with the key of {keys / 'other.public'}")


@pytest.mark.parametrize(
    ("what", "key", "said"),
    [
        ("nothing.onnx", "own.private", "expected a model's file"),
        ("empty", "own.private", "expected a model's file"),
        ("link.onnx", "own.private", "sign the file that it leads to"),
        ("iris.onnx", "own.public", "expected the private key"),
        ("iris.onnx", "rsa.private", "expected the private key"),
        ("iris.onnx", "koblitz.private", "expected the private key"),
        ("iris.onnx", "nothing", "cannot read or write"),
    ],
)
def test_what_cannot_be_signed(what: str, key: str, said: str, tmp_path: Path, keys: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link.onnx").symlink_to(path)
    assert said in refused("sign", tmp_path / what, "--key", keys / key)
    assert not list(tmp_path.rglob("*.sig"))
