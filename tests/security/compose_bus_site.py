"""The bus of docker-compose.yml without an engine: its keys, its server, and what each service can read of both."""

import contextlib
import json
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys
from carico_local import nats_server
from carico_local.cluster import free_ports
from tests.security import raw_client
from tests.tools import waiting

ROOT = pathlib.Path(__file__).parents[2]
KEYS, SERVER = "keys", "nats-server"
# As of the page, which the server's configuration takes from its environment.
PAGE = "http://127.0.0.1:1"


def services() -> dict[str, dict[str, Any]]:
    """Return the services of the compose file."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def mounts(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the volumes of a service by the folder in which they are."""
    parted = (each.split(":") for each in service.get("volumes", []))
    return {parts[1]: parts[0] for parts in parted}


class ComposeBus:
    """Keys and server, each made by the command and the configuration of the compose file."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.services = services()
        self.port, self.websocket_port = free_ports.choose(str(root), 2)
        # Of the process of the server, once it runs.
        self.server_id = 0
        # Folders of `keys` by volume.
        self._volumes = {volume: folder for folder, volume in mounts(self.services[KEYS]).items()}

    def make_keys(self, *options: str) -> None:
        """Run the service `keys`."""
        subprocess.run([*self._keys_command(), *options], env=self._environ(), check=True, timeout=60.0)

    def rotate(self, *names: str) -> subprocess.CompletedProcess[str]:
        """Run compose/rotate.sh with a `docker` that does to these keys and this server what it asks of the engine."""
        programs = self.root / "programs"
        programs.mkdir(exist_ok=True)
        keys = " ".join(shlex.quote(str(each)) for each in self._keys_command())
        (programs / "docker").write_text(
            "#!/bin/sh\n"
            'case "$*" in\n'
            f'"compose run --rm --no-deps {KEYS} "*) shift 5; exec {keys} "$@";;\n'
            f'"compose exec -T {SERVER} nats-server --signal reload=1") exec kill -HUP {self.server_id};;\n'
            '*) echo "unexpected: $*" >&2; exit 1;;\n'
            "esac\n"
        )
        (programs / "docker").chmod(0o755)
        environ = self._environ()
        return subprocess.run(
            [ROOT / "compose/rotate.sh", *names], env={"PATH": f"{programs}:{environ['PATH']}"}, check=False,
            timeout=60.0, capture_output=True, text=True,
        )  # fmt: skip

    def _keys_command(self) -> list[str | pathlib.Path]:
        command, folder = self.services[KEYS]["entrypoint"]
        return ["/bin/bash", ROOT / "compose/image" / command, self._here(folder)]

    def _environ(self) -> dict[str, str]:
        return {"PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"}

    def path(self, service: str, path: str) -> pathlib.Path:
        """Return the file that a service sees at `path`, which is in one of its volumes."""
        ((folder, volume),) = [
            each for each in mounts(self.services[service]).items() if path.startswith(f"{each[0]}/")
        ]  # fmt: skip
        return self._here(self._volumes[volume]) / path.removeprefix(f"{folder}/")

    def seen(self, service: str) -> set[str]:
        """Return the names of all seeds that a service can read."""
        folders = (
            self._volumes[volume] for volume in mounts(self.services[service]).values() if volume in self._volumes
        )
        return {path.name for folder in folders for path in self._here(folder).rglob("*.nk")}

    def key(self, service: str) -> pathlib.Path:
        """Return the seed of a service, by its environment."""
        environ = self.services[service]["environment"]
        (path,) = [environ[name] for name in ("CARICO_BUS_NKEY", "CARICO_WEB_NKEY") if name in environ]
        return self.path(service, path)

    def node_key(self, node: str) -> pathlib.Path:
        """Return the seed of a node's agent."""
        folder = self.services["node"]["environment"]["CARICO_CONTAINER_BUS_KEYS"]
        return self.path("node", f"{folder}/agent-{node}.nk")

    @property
    def contexts(self) -> pathlib.Path:
        """The folder of contexts of the nats command."""
        home = self.services["nats"]["environment"]["XDG_CONFIG_HOME"]
        return ROOT / mounts(self.services["nats"])[f"{home}/nats"]

    def context(self, name: str) -> dict[str, str]:
        """Return a context of the nats command."""
        found: dict[str, str] = json.loads((self.contexts / "context" / f"{name}.json").read_text())
        return found

    def context_key(self, name: str) -> pathlib.Path:
        """Return the seed of a context."""
        return self.path("nats", self.context(name)["nkey"])

    def settings(self, key: pathlib.Path) -> buses.BusSettings:
        """Return the settings of who holds a seed."""
        return buses.BusSettings(url=f"nats://127.0.0.1:{self.port}", nkey=str(key))

    def raw(self, key: pathlib.Path) -> raw_client.RawClient:
        """Return a connection with a seed, accepted by the server."""
        return raw_client.RawClient(self.port).connect(signer=nkeys.read(key))

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run the server for the length of the block."""
        config = self._configuration()
        environ = {"CARICO_PAGE": PAGE, "CARICO_PAGE_BY_NAME": PAGE.replace("127.0.0.1", "localhost")}
        assert set(environ) == set(self.services[SERVER]["environment"])
        log = self.root / "nats.log"
        with log.open("wb") as out:
            process = subprocess.Popen([nats_server.binary(), "-c", config], env=environ, stdout=out, stderr=out)
        self.server_id = process.pid
        try:
            waiting.until_now(lambda: "Server is ready" in log.read_text(), what=log.read_text)
            yield
        finally:
            process.kill()
            process.wait()

    def _configuration(self) -> pathlib.Path:
        """Write the shipped configuration where it finds the keys' part, with ports and folders of here."""
        volume = {volume: folder for folder, volume in mounts(self.services[SERVER]).items()}
        shipped = "./compose/nats/nats.conf"
        config = self.root / volume[shipped].lstrip("/")
        config.parent.mkdir(parents=True)
        text = (ROOT / shipped).read_text()
        for there, here in (
            ("\nport: 4222", f"\nhost: 127.0.0.1\nport: {self.port}"), ("http_port: 8222\n", ""),
            (f'"{volume["nats"]}"', f'"{self.root / "store"}"'),
            ("  port: 9222", f"  host: 127.0.0.1\n  port: {self.websocket_port}"),
        ):  # fmt: skip
            assert text.count(there) == 1, there
            text = text.replace(there, here)
        config.write_text(text)
        (part,) = [each for each in self._volumes if each in volume]
        (self.root / volume[part].lstrip("/")).symlink_to(self._here(self._volumes[part]))
        return config

    def _here(self, folder: str) -> pathlib.Path:
        return self.root / folder.lstrip("/")


@contextlib.contextmanager
def running(root: pathlib.Path) -> Iterator[ComposeBus]:
    """Keys made, and the server running."""
    bus = ComposeBus(root)
    bus.make_keys()
    with bus.serving():
        yield bus
