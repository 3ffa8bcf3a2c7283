"""The models that are served: found on disk, loaded, and replaced without dropping a request.

A request resolves its `Served` once and keeps it; a reload loads the new file beside the old one and then swaps the
table in one assignment. The old session goes when its last request has been answered.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lcml_serving.batching import Batcher
from lcml_serving.drift import Drift, drift_of
from lcml_serving.errors import ConflictError, ModelError, NotFoundError, SettingsError, short
from lcml_serving.features import check_finite
from lcml_serving.logs import log
from lcml_serving.metrics import Metrics
from lcml_serving.model_files import read_files, sidecar_path, signature_path
from lcml_serving.models import CONTRIBUTIONS, OnnxModel, load_model
from lcml_serving.settings import LONGEST, MODEL_NAME, Settings
from lcml_serving.signature import Array

FILE_VERSION = "1"  # the version under which a single file is served

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Source:
    """A model file and what tells whether it has changed."""

    path: Path
    stamp: Stamp


@dataclass(frozen=True)
class Served:
    """A model version with its queues."""

    model: OnnxModel
    source: Source
    predict: Batcher
    explain: Batcher
    drift: Drift | None

    async def predicted(self, inputs: tuple[Array, ...]) -> dict[str, Array]:
        """The outputs of a plain inference by name, counted. Raises UnprocessableError where one is not finite."""
        outputs = await self.predict.submit(*inputs)
        arrays = dict(zip(self.model.signature.predictions, outputs, strict=True))
        check_finite(arrays)
        if self.drift is not None:
            self.drift.add(inputs, arrays["label"])
        return arrays


@dataclass(frozen=True)
class Failure:
    """A model file that could not be loaded, and why."""

    stamp: Stamp
    reason: str


Table = Mapping[str, Mapping[str, Served]]


class Repository:
    """Finds, loads and hands out models by name and version; the highest version is the default.

    table: what is served now, by name and version.
    """

    def __init__(
        self, settings: Settings, executor: Executor, metrics: Metrics, trace: Callable[..., None] | None = None
    ) -> None:
        self._settings, self._executor, self._metrics, self._trace = settings, executor, metrics, trace
        self.table: Table = {}
        self._failures: dict[tuple[str, str], Failure] = {}
        self._lock = asyncio.Lock()
        self._verifier: Any = None
        if settings.require_signature:
            from lcml_serving.signing import Verifier

            self._verifier = Verifier(Path(settings.require_signature))

    def load_all(self) -> None:
        """First load: every model there must be good. Raises SettingsError or ModelError."""
        found = self._discover()
        if not any(found.values()):
            places = ", ".join(str(path) for path in self._settings.paths)
            raise SettingsError(f"no model in {places}; expected NAME/VERSION/model.onnx with a number for VERSION")
        self.table = {
            name: {version: self._load(name, version, source) for version, source in versions.items()}
            for name, versions in found.items()
            if versions
        }
        for name, versions in self.table.items():
            self._metrics.reloads.labels(name, "loaded").inc(len(versions))
        default = self._settings.default_model
        if default and default not in self.table:
            message = f"--default-model {default[:LONGEST]} is not served; expected one of {', '.join(self.table)}"
            raise SettingsError(message)

    def get(self, name: str, version: str | None = None) -> Served:
        """The model to ask. Raises NotFoundError."""
        versions = self.table.get(name)
        if versions is None:
            raise NotFoundError(f"model {short(name)} is not served; GET /v2/repository/index lists what is")
        if not version:
            return versions[max(versions, key=int)]
        if version not in versions:
            raise NotFoundError(
                f"model {short(name)} has no version {short(version)}; it has {', '.join(sorted(versions, key=int))}"
            )
        return versions[version]

    def default(self) -> Served:
        """The model behind /invocations. Raises NotFoundError where several are served and none was chosen."""
        name = self._settings.default_model or (next(iter(self.table)) if len(self.table) == 1 else None)
        if name is None:
            message = "several models are served: start with --default-model NAME, or ask /v2/models/NAME/infer"
            raise NotFoundError(message)
        return self.get(name)

    def index(self) -> list[dict[str, str]]:
        """Name, version, state and reason of every model, as the Triton repository extension lists them."""
        keys = {(name, version) for name, versions in self.table.items() for version in versions} | set(self._failures)
        return [
            {
                "name": name,
                "version": version,
                "state": "READY" if version in self.table.get(name, {}) else "UNAVAILABLE",
                "reason": self._failures[name, version].reason if (name, version) in self._failures else "",
            }
            for name, version in sorted(keys, key=lambda key: (key[0], int(key[1])))
        ]

    async def reload(self, name: str | None = None) -> None:
        """Make the table agree with the disk: all models that changed, or one model whether it changed or not.

        A version whose file cannot be loaded keeps the session it has, and is not tried again until its file changes
        or it is asked for by name. Raises, for one model, NotFoundError and ConflictError.
        """
        async with self._lock:
            try:
                found = await asyncio.to_thread(self._discover)
            except SettingsError as error:  # for example a mount that went away: keep what is served
                log.error("reload failed", extra={"reason": str(error)})
                if name is None:
                    return
                raise ConflictError(str(error)) from error
            if name is None:
                for each in sorted(found.keys() | self.table.keys() | {failed for failed, _ in self._failures}):
                    await self._reload_one(each, found.get(each, {}), force=False)
                return
            if name not in found and name not in self.table:
                await self._reload_one(name, {}, force=False)  # forgets why it could not be loaded
                raise NotFoundError(f"model {short(name)} is neither served nor in the repository")
            if reasons := await self._reload_one(name, found.get(name, {}), force=True):
                raise ConflictError(f"model {name!r} was not loaded, the versions loaded before stay: {reasons[0]}")

    async def _reload_one(self, name: str, sources: Mapping[str, Source], *, force: bool) -> list[str]:
        before = self.table.get(name, {})
        after: dict[str, Served] = {}
        reasons: list[str] = []
        for key in [key for key in self._failures if key[0] == name and key[1] not in sources]:
            del self._failures[key]
        for version, source in sources.items():
            key, old = (name, version), before.get(version)
            failure = self._failures.get(key)
            known = failure.stamp if failure else old.source.stamp if old else None
            if force or source.stamp != known:
                try:
                    after[version] = await asyncio.to_thread(self._load, name, version, source)
                    self._failures.pop(key, None)
                    self._metrics.reloads.labels(name, "loaded").inc()
                    continue
                except ModelError as error:
                    reasons.append(str(error))
                    self._failures[key] = Failure(source.stamp, str(error))
                    self._metrics.reloads.labels(name, "failed").inc()
                    log.error("model not loaded", extra={"model": name, "version": version, "reason": str(error)})
            if old is not None:
                after[version] = old
        for version in before.keys() - after.keys():
            log.info("model unloaded", extra={"model": name, "version": version})
        table = {**self.table, name: after}
        self.table = {each: versions for each, versions in sorted(table.items()) if versions}
        return reasons

    def _load(self, name: str, version: str, source: Source) -> Served:
        settings = self._settings
        files = read_files(source.path)
        if self._verifier is not None:  # of what is loaded: the files may change meanwhile
            self._verifier.check(source.path, files)
        model = load_model(source.path, name, version, settings.intra_op_threads, files)
        if model.signature.output(CONTRIBUTIONS) and model.conditions is None:
            log.warning(
                "the model has contributions but no sidecar with their conditions: it will not explain",
                extra={"model": name, "version": version, "path": str(source.path)},
            )
        batcher: Callable[..., Batcher] = partial(
            Batcher,
            executor=self._executor,
            max_rows=settings.max_batch_size,
            max_delay=settings.max_batch_delay_ms / 1000,
            parallel=settings.instances,
            report=self._metrics.reporter(name, version),
            trace=self._trace and partial(self._trace, model.signature),
        )
        try:
            drift = drift_of(model.metadata, model.signature, settings.drift_rows)
        except ValueError as error:
            raise ModelError(f"{source.path}: {error}") from error
        log.info("model loaded", extra={"model": name, "version": version, "sha256": model.sha256})
        return Served(
            model,
            source,
            predict=batcher(partial(model.run, model.signature.predictions)),
            explain=batcher(partial(model.run, ("label", CONTRIBUTIONS))),
            drift=drift,
        )

    def _discover(self) -> dict[str, dict[str, Source]]:
        found: dict[str, dict[str, Source]] = {}
        for path in self._settings.paths:
            try:
                pairs = list(self._models_of_file(path) if path.suffix == ".onnx" else _models_of_repository(path))
            except OSError as error:
                raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
            for name, versions in pairs:
                if name in found:
                    raise SettingsError(f"two models are named {name!r}, one of them in {path}; rename one")
                found[name] = versions
        return found

    def _models_of_file(self, path: Path) -> Iterator[tuple[str, dict[str, Source]]]:
        name = self._settings.name or path.stem
        if not MODEL_NAME.fullmatch(name):
            raise SettingsError(f"{path}: {name!r} cannot be a model's name in a URL; choose one with --name")
        yield name, {FILE_VERSION: _source(path)}


def _models_of_repository(root: Path) -> Iterator[tuple[str, dict[str, Source]]]:
    if not root.is_dir():
        raise SettingsError(f"{root}: expected FILE.onnx or a directory NAME/VERSION/model.onnx")
    for directory in sorted(root.iterdir()):
        if not MODEL_NAME.fullmatch(directory.name) or not directory.is_dir():
            continue
        files = {child.name: child / "model.onnx" for child in directory.iterdir()}
        # "01" beside "1" would be two versions of one number
        numbers = [name for name in files if name.isascii() and name.isdecimal() and name == str(int(name))]
        versions = [version for version in sorted(numbers, key=int) if files[version].is_file()]
        yield directory.name, {version: _source(files[version]) for version in versions}


def _source(path: Path) -> Source:
    signature = signature_path(path)
    found = [os.stat(file) for file in (path, sidecar_path(path), signature.exists() and signature) if file]
    return Source(path, tuple((status.st_ino, status.st_mtime_ns, status.st_size) for status in found))
