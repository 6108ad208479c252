"""An S3 server on this machine, and the settings of Hadoop's client for it, for tests and benchmarks."""

import subprocess
import time
import urllib.request
from pathlib import Path

from servers.ports import free_port

_FOLDER = Path(__file__).resolve().parents[2] / ".tools" / "s3"
JARS = sorted((_FOLDER / "jars").glob("*.jar"))
_PYTHON = _FOLDER / "venv" / "bin" / "python"
IS_INSTALLED = bool(JARS) and _PYTHON.exists()
# Werkzeug answers `Expect: 100-continue`, and so does the HTTP server below it: a client takes the
# second answer for that of its request. It would colour the lines of requests that fail or return a
# part.
_SERVER = """
from http.server import BaseHTTPRequestHandler
from moto.server import main
from werkzeug import serving
BaseHTTPRequestHandler.handle_expect_100 = lambda handler: True
serving._log_add_style = False
main()
"""


class Store:
    """A server on a free port, with the bucket ``streams``; its log has a line for each request."""

    def __init__(self, log: Path) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        self.log = log
        self.process = subprocess.Popen(
            [str(_PYTHON), "-c", _SERVER, "-H", "127.0.0.1", "-p", str(port)],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + 60
        while True:
            try:
                self._create_bucket()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.2)

    def has_got(self, path: str) -> bool:
        """Return whether the log says that an object of the bucket has been written."""
        return f'"PUT /streams/{path} ' in self.log.read_text()

    def _create_bucket(self) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/streams", method="PUT")).close()

    def stop(self) -> None:
        """End the server; its objects are lost."""
        self.process.terminate()
        self.process.wait()

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a session that uses it."""
        client = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": "any",
            "secret.key": "any",
        }
        return {"spark.jars": ",".join(map(str, JARS))} | {
            f"spark.hadoop.fs.s3a.{key}": value for key, value in client.items()
        }
