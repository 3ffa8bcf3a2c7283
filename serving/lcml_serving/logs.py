"""Structured logs: one JSON object a line on stderr."""

import json
import logging
import sys
import time
from datetime import UTC, datetime

log = logging.getLogger("lcml_serving")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_REPEAT_SECONDS = 10.0


class JsonFormatter(logging.Formatter):
    """time, level, logger and message, the record's own `extra` fields, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class Rate(logging.Filter):
    """Lets a line of a library pass once in `_REPEAT_SECONDS`; the next to pass says how many were left out.

    What a client can cause without a request must not fill the disk: asyncio and uvicorn log it each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == log.name:
            return True
        key = record.name, str(record.msg)[:100]
        passed, n_left_out = self._last.get(key, (-_REPEAT_SECONDS, 0))
        now = time.monotonic()
        if now - passed < _REPEAT_SECONDS:
            self._last[key] = passed, n_left_out + 1
            return False
        self._last[key] = now, 0
        if n_left_out:
            record.left_out = n_left_out
        return True


def configure_logging(level: str) -> None:
    """Send every log line of the process, uvicorn's too, to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(Rate())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # uvicorn tells of its own start and stop at this level; the service logs them itself
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
