"""The one exception tree of the service; a RequestError carries the HTTP status that it is answered with.

ServingError
|-- SettingsError             a flag, variable or path that cannot be used: exit code 2 at start
|-- ModelError                a model file that cannot be served: exit code 2 at start, 409 at reload
`-- RequestError
    |-- BadRequestError            400  not JSON, not the protocol, wrong lengths
    |-- UnauthorizedError          401  no bearer token or a wrong one
    |-- NotFoundError              404  unknown model, version or output
    |-- RequestTimeoutError        408  the body did not arrive in time
    |-- ConflictError              409  the repository holds nothing that can be loaded
    |-- BodyTooLargeError          413  body above the cap, as sent or decompressed
    |-- UnsupportedMediaTypeError  415  unknown content type or encoding
    |-- UnprocessableError         422  wrong shape, type or value, too many rows
    `-- BusyError                  503  too many requests at once, or going down
"""

from collections.abc import Mapping
from typing import Any, ClassVar

_QUOTED = 60


def short(value: Any) -> str:
    """`value` as an error quotes it: in ASCII and cut, for it may be anything that a client or a file holds."""
    text = ascii(value)
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."


class ServingError(Exception):
    """Base of every error the service raises on purpose."""


class SettingsError(ServingError, ValueError):
    """A flag, environment variable or path that cannot be used."""


class ModelError(ServingError, ValueError):
    """A model file that cannot be served."""


class RequestError(ServingError):
    """A request that is answered with `status`, `{"error": message}` and `headers`."""

    status: ClassVar[int]
    headers: ClassVar[Mapping[str, str]] = {}


class BadRequestError(RequestError):
    status = 400


class UnauthorizedError(RequestError):
    status = 401
    headers: ClassVar[Mapping[str, str]] = {"www-authenticate": "Bearer"}


class NotFoundError(RequestError):
    status = 404


class RequestTimeoutError(RequestError):
    status = 408
    headers: ClassVar[Mapping[str, str]] = {"connection": "close"}


class ConflictError(RequestError):
    status = 409


class BodyTooLargeError(RequestError):
    status = 413
    headers: ClassVar[Mapping[str, str]] = {"connection": "close"}


class UnsupportedMediaTypeError(RequestError):
    status = 415


class UnprocessableError(RequestError):
    status = 422


class BusyError(RequestError):
    status = 503
    headers: ClassVar[Mapping[str, str]] = {"retry-after": "1"}
