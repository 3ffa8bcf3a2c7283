"""Structured logs: one JSON object a line on stderr."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import final

log = logging.getLogger("lcml_serving")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@final
class JsonFormatter(logging.Formatter):
    """time, level, logger and message, the record's own `extra` fields, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
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


def configure_logging(level: str) -> None:
    """Send every log line of the process, uvicorn's too, to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # uvicorn tells of its own start and stop at this level; the service logs them itself
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
