"""compose/image/carico-healthy holds good answers, and reports changes at once."""

import pathlib
import subprocess
from collections.abc import Iterator
from http import server

import pytest

from tests.tools import http_thread, waiting
from tests.tools.docker import images

SCRIPT = images.ROOT / "compose" / "image" / "carico-healthy"
ANSWERED = "/dev/shm/carico-healthy"
# Below its 50 and 60 s, for which it holds an answer that does not change.
AT_ONCE_S = 40.0


class Service(http_thread.Server):
    """Answers with `status`."""

    def __init__(self) -> None:
        self.status = 200
        service = self

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(service.status)
                self.end_headers()

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Log nothing."""

        super().__init__(Handler)


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    yield found
    found.close()


def test_a_change_of_health_is_reported_at_once(service: Service, tmp_path: pathlib.Path) -> None:
    text = SCRIPT.read_text()
    assert ANSWERED in text
    # What it remembers stands elsewhere here.
    (tmp_path / "script").write_text(text.replace(ANSWERED, str(tmp_path / "answered")))
    argv = ["/bin/bash", str(tmp_path / "script"), service.url.rpartition(":")[2]]

    def asked() -> int:
        return subprocess.run(argv, stdout=subprocess.DEVNULL, check=False, timeout=AT_ONCE_S).returncode

    service.status = 503
    starting = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    service.status = 200
    try:
        # Held until there is a good answer.
        assert starting.wait(waiting.WAIT_S) == 0
    finally:
        starting.kill()
        starting.wait()
    service.status = 503
    assert [asked(), asked()] == [1, 1]
    service.status = 200
    assert asked() == 0
