"""The files of a model: the graph, beside it the conditions of its contributions, and the signature of both."""

from pathlib import Path

from lcml_serving.errors import ModelError


def sidecar_path(path: Path) -> Path | None:
    """The file with the conditions of this model's contributions, if it is there."""
    names = [f"{path.stem}.explain.json", *(["explain.json"] if path.name == "model.onnx" else ())]
    return next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)


def signature_path(path: Path) -> Path:
    """Where the signature of a model and its sidecar is."""
    return path.with_name(f"{path.name}.sig")


def read_files(path: Path) -> dict[str, bytes]:
    """The content of a model and of its sidecar by name, the model first. Raises ModelError."""
    return {file.name: read_content(file) for file in (path, sidecar_path(path)) if file}


def read_content(path: Path) -> bytes:
    """The bytes of a file. Raises ModelError where it cannot be read."""
    try:
        if not path.is_file():
            raise ModelError(f"{path} is not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
