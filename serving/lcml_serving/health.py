"""`python -m lcml_serving.health`: exit 0 where the service on this machine is ready; for a container."""

import http.client
import os
import sys

from lcml_serving.settings import Settings, variable, without_service_links


def main() -> int:
    """Ask /v2/health/ready on LCML_SERVING_PORT."""
    port = without_service_links(os.environ).get(variable("port")) or Settings.port
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=2)
    try:
        connection.request("GET", "/v2/health/ready")
        return 0 if connection.getresponse().status == 200 else 1
    except OSError:
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
