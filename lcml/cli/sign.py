"""`lcml sign`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lcml.cli.common import option


def sign(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="FILE.onnx, or a directory with NAME/VERSION/model.onnx.")
    ],
    key: Annotated[
        str, option("Private key of an elliptic curve (P-256, P-384, P-521) as PEM.", metavar="PRIVATE.pem")
    ],
    password_file: Annotated[str | None, option("File with the key's password.", metavar="FILE")] = None,
) -> None:
    """Sign a model and its sidecar: writes MODEL.sig beside it, as OpenSSF Model Signing has it.

    A service started with --require-signature PUBLIC.pem serves nothing else. In a model repository every version is
    signed for itself. No other machine is asked.
    """
    from lcml.errors import DataError, SettingsError
    from lcml_serving.model_files import sidecar_path, signature_path

    found = Path(model)
    paths = sorted(found.glob("*/*/model.onnx")) if found.is_dir() else [found] if found.is_file() else []
    if not paths:
        raise DataError(f"{model}: expected a model's file, or a directory with NAME/VERSION/model.onnx")
    signer = _signer(Path(key), None if password_file is None else Path(password_file).read_bytes().strip())
    for path in paths:
        files = [path, *filter(None, [sidecar_path(path)])]
        if link := next((file for file in files if file.is_symlink()), None):
            raise SettingsError(f"{link} is a symbolic link; sign the file that it leads to")
        _write(signer, files, signature_path(path))
        typer.echo(f"{signature_path(path)}: signs {' and '.join(file.name for file in files)}")


def _signer(key: Path, password: bytes | None) -> Any:
    """The configuration of the package model-signing with this key."""
    from lcml.errors import MissingDependencyError, SettingsError

    try:
        from model_signing import signing
    except ImportError as error:
        raise MissingDependencyError(error.name or "model-signing", "sign", "lcml sign") from error
    try:
        return signing.Config().use_elliptic_key_signer(private_key=key, password=password)
    except OSError:
        raise
    except Exception as error:  # of cryptography and of model-signing, which have no common base
        message = "expected the private key of a curve P-256, P-384 or P-521 as PEM, and its password if it has one"
        raise SettingsError(f"--key {key}: {message}") from error


def _write(signer: Any, files: Sequence[Path], place: Path) -> None:
    """The signature of these files of one directory."""
    from tempfile import TemporaryDirectory

    from model_signing import hashing

    from lcml.files import write_atomically

    class These(hashing.Config):  # type: ignore[misc]  # the package signs all files of a directory otherwise
        def hash(self, model_path: Any, **_: Any) -> Any:
            return super().hash(model_path, files_to_hash=files)

    with TemporaryDirectory() as directory:
        written = Path(directory, "sig")
        signer.set_hashing_config(These()).sign(files[0].parent, written)
        write_atomically(place, written.read_bytes())
