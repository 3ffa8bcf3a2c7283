"""Where runs are recorded: as given, else as MLflow's environment variables say, else the defaults."""

import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies

from lcml.errors import TrackingError
from lcml.tracking.records import DEFAULT_EXPERIMENT, DEFAULT_URI

_PROBE_SECONDS = 1.0
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///([^?%]+)")  # versions of SQLAlchemy read % in different ways
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")
_URI_VARIABLE = "MLFLOW_TRACKING_URI"
_EXPERIMENT_VARIABLES = ("MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID")


def store_uri(given: str | None = None) -> str:
    """The address of the store: `given`, else MLFLOW_TRACKING_URI, else DEFAULT_URI; TrackingError for a wrong one."""
    uri = given or os.environ.get(_URI_VARIABLE) or DEFAULT_URI
    try:
        check_uri(uri)
    except TrackingError as error:
        if given:
            raise
        raise TrackingError(f"{_URI_VARIABLE}: {error}; set it otherwise, or give --tracking-uri") from error
    return uri


def experiment_name(given: str | None = None, default: str = DEFAULT_EXPERIMENT) -> str:
    """The name or id of the experiment: `given`, else as MLFLOW_EXPERIMENT_NAME or _ID says, else `default`."""
    return given or next(filter(None, map(os.environ.get, _EXPERIMENT_VARIABLES)), default)


def sqlite_path(uri: str) -> Path | None:
    """The database file of a sqlite address, None for any other address."""
    match = _SQLITE.fullmatch(uri)
    return Path(match[1]) if match else None


def shown(uri: str) -> str:
    """`uri` without user and password."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def check_uri(uri: str) -> None:
    """TrackingError for an address that MLflow cannot record runs in."""
    try:
        parts = urlsplit(uri)
        scheme, _ = parts.scheme, parts.port
        known = scheme.partition("+")[0] in _SCHEMES and (parts.hostname or not scheme.startswith("http"))
        text = shown(uri)
    except ValueError:  # 'http://[', a port that is no number
        known, scheme, text = False, "", uri.rpartition("@")[2]
    if not known or (scheme.startswith("sqlite") and sqlite_path(uri) is None):
        raise TrackingError(
            f"tracking address {text!r}: expected sqlite:///PATH.db (without ? and %) or the http(s):// address of an "
            "MLflow server"
        )


def require_reachable(uri: str) -> None:
    """TrackingError, soon, where the host of an http address takes no connection; other addresses pass."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or parts.hostname is None or parts.scheme in getproxies():
        return
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname, port), _PROBE_SECONDS).close()
    except OSError as error:
        raise TrackingError(f"no connection to {shown(uri)}: {error.strerror or error}") from error
