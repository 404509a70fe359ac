"""compose/check.sh says in one line what stands in the way of `docker compose up`; docker is a script here."""

import os
import pathlib
import socket
import subprocess

import pytest

from tests.tools import images

SCRIPT = images.ROOT / "compose" / "check.sh"
# A docker that answers what check.sh asks.
DOCKER = """#!/bin/sh
case "$*" in
  "version --format"*) {version} ;;
  "compose version --short") {compose} ;;
  "compose ps --quiet") {running} ;;
  "info --format"*) echo {memory} ;;
  "compose up"*) echo "docker $*" ;;
esac
"""


def check(
    folder: pathlib.Path, answers: dict[str, str] | None = None, *words: str, ports: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    answers = answers or {}
    usual = {"version": "echo 27.1.1", "compose": "echo 2.40.3", "running": "true", "memory": str(8 << 30)}
    docker = folder / "docker"
    if answers.get("version") != "missing":
        docker.write_text(DOCKER.format(**(usual | answers)))
        docker.chmod(0o755)
    free = dict.fromkeys(("API", "NATS", "WEBSOCKET"), "1") | (ports or {})
    environ = {f"CARICO_COMPOSE_{name}_PORT": port for name, port in free.items()}
    tools = [folder, *({} if answers.get("version") == "missing" else {"/usr/bin", "/bin"})]
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT), *words], env={**environ, "PATH": os.pathsep.join(map(str, tools))}, text=True,
        capture_output=True, check=False, timeout=30.0,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_all_is_well(tmp_path: pathlib.Path) -> None:
    assert check(tmp_path) == (0, "ready: Docker 27.1.1, Compose 2.40.3, 8192 MiB\n", "")


def test_with_words_it_goes_on_where_all_is_well(tmp_path: pathlib.Path) -> None:
    code, out, _ = check(tmp_path, {}, "up", "-d", "--wait")
    assert (code, out.splitlines()[1]) == (0, "docker compose up -d --wait")
    code, out, _ = check(tmp_path, {"memory": str(1 << 30)}, "up", "-d", "--wait")
    assert (code, out) == (2, "")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"version": "missing"}, "no docker command on PATH: install Docker Engine, or"),
        (
            {"version": "echo 'Cannot connect to the Docker daemon at unix:///x.' >&2; exit 1"},
            "no Docker engine answers (Cannot connect to the Docker daemon at unix:///x.): start it",
        ),
        ({"version": "echo 19.03.15"}, "got Docker engine 19.03.15, expected 20.10 or later: upgrade it"),
        ({"compose": "exit 1"}, "docker has no `compose` command: install the plugin docker-compose-plugin"),
        ({"compose": "echo v2.6.0"}, "got Docker Compose v2.6.0, expected 2.20 or later"),
        ({"memory": str(1 << 30)}, "got 1024 MiB of memory, expected 2048: give the engine more"),
    ],
)
def test_what_stands_in_the_way_is_told_in_one_line(
    tmp_path: pathlib.Path, answers: dict[str, str], expected: str
) -> None:
    code, out, err = check(tmp_path, answers)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"compose/check.sh: {expected}")


def test_a_port_that_is_taken_is_named_with_its_variable(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = check(tmp_path, ports={"NATS": port})
        assert code == 2
        assert f"port {port} of 127.0.0.1 is taken: end what listens there, or set CARICO_COMPOSE_NATS_PORT" in err
        # ... but not where it is this project that listens.
        assert check(tmp_path, {"running": "echo abc"}, ports={"NATS": port})[0] == 0
