"""`python -m lcml_serving PATH [--flag value ...]`: exit code 0 after SIGTERM, 2 where it cannot start."""

import asyncio
import os
import sys
from collections.abc import Sequence

from lcml_serving.errors import ServingError
from lcml_serving.settings import parse_settings


def main(argv: Sequence[str] | None = None) -> int:
    try:
        settings = parse_settings(sys.argv[1:] if argv is None else argv, os.environ)
        # onnxruntime and starlette only once the settings are good: a mistake is told at once
        from lcml_serving.logs import configure_logging
        from lcml_serving.server import serve
        from lcml_serving.service import Service

        configure_logging(settings.log_level)
        service = Service(settings)
        try:
            asyncio.run(serve(service))
        finally:
            service.close()
    except ServingError as error:
        print(f"lcml_serving: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
