"""compose/check.sh says in one line what stands in the way of `docker compose up`; docker is a script here."""

import os
import pathlib
import socket
import subprocess

import pytest

from tests.tools.docker import images

SCRIPT = images.ROOT / "compose" / "check.sh"
# A docker that answers what check.sh asks.
DOCKER = """#!/bin/sh
case "$*" in
  "version --format"*) {version} ;;
  "compose version --short") {compose} ;;
  "compose "*"ps --format json") {running} ;;
  "compose --profile web config") cat {folder}/config {folder}/config-of-web ;;
  "compose config") cat {folder}/config ;;
  "info --format"*) echo {memory} ;;
  "compose up"* | "compose --profile web up"*) echo "docker $*" ;;
esac
"""
# What `docker compose config` says of a port.
PUBLISHED = """    ports:
      - mode: ingress
        host_ip: 127.0.0.1
        target: {target}
        published: "{port}"
        protocol: tcp
    volumes:
      - type: volume
        target: /data
"""


def check(
    folder: pathlib.Path, answers: dict[str, str] | None = None, *words: str, nats_port: int = 1, page_port: int = 1
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    answers = answers or {}
    usual = {"version": "echo 27.1.1", "compose": "echo 2.40.3", "running": "true", "memory": str(8 << 30)}
    usual["folder"] = str(folder)
    (folder / "config").write_text(PUBLISHED.format(target=4222, port=nats_port))
    (folder / "config-of-web").write_text(PUBLISHED.format(target=8080, port=page_port))
    docker = folder / "docker"
    if answers.get("version") != "missing":
        docker.write_text(DOCKER.format(**(usual | answers)))
        docker.chmod(0o755)
    tools = [folder, *({} if answers.get("version") == "missing" else {"/usr/bin", "/bin"})]
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT), *words], env={"PATH": os.pathsep.join(map(str, tools))}, text=True,
        capture_output=True, check=False, timeout=120.0,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_all_is_well(tmp_path: pathlib.Path) -> None:
    assert check(tmp_path) == (0, "ready: Docker 27.1.1, Compose 2.40.3, 8192 MiB\n", "")


def test_with_words_it_goes_on_where_all_is_well(tmp_path: pathlib.Path) -> None:
    code, out, _ = check(tmp_path, {}, "up", "-d", "--wait")
    assert (code, out.splitlines()[1]) == (0, "docker compose up -d --wait")
    assert out.splitlines()[2:] == [
        "next:", "  docker compose run --rm submit pi --pods 200", "  docker compose run --rm carico top",
        "  docker compose down --volumes",
    ]  # fmt: skip
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
def test_what_stands_in_the_way_is_reported_in_one_line(
    tmp_path: pathlib.Path, answers: dict[str, str], expected: str
) -> None:
    code, out, err = check(tmp_path, answers)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"compose/check.sh: {expected}")


def test_a_port_that_is_taken_is_named_with_its_variable(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = check(tmp_path, {}, "up", "-d", nats_port=port)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"port {port} of 127.0.0.1 is in use: stop the program that listens there" in err
        assert "or set CARICO_COMPOSE_NATS_PORT to a free one" in err
        # ... but not where it is this project that listens, as when more of it is started, or an `up` failed half-way.
        ours = f"""echo '{{"Publishers":[{{"TargetPort":4222,"PublishedPort":{port},"Protocol":"tcp"}}]}}'"""
        assert check(tmp_path, {"running": ours}, nats_port=port)[0] == 0
        assert check(tmp_path, {"running": ours.replace(f":{port},", f":{port}0,")}, nats_port=port)[0] == 2


def test_ports_of_a_profile_count_where_it_is_asked_for(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert check(tmp_path, {}, "up", "-d", page_port=port)[0] == 0
        code, _, err = check(tmp_path, {}, "--profile", "web", "up", "-d", page_port=port)
        assert (code, "CARICO_COMPOSE_WEB_PORT" in err) == (2, True)
    code, out, _ = check(tmp_path, {}, "--profile", "web", "up", "-d", page_port=port)
    assert (code, out.splitlines()[1]) == (0, "docker compose --profile web up -d")
    assert out.endswith("  docker compose --profile web down --volumes\n")
