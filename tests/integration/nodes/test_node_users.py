"""The user of Pods on a node of root: unprivileged, so that they cannot read what belongs to the cluster."""

import contextlib
import json
import os
import pathlib
import shlex
import tempfile
from collections.abc import Iterator

import pytest

from carico_local.node.containers import handlers
from carico_local.node.runtime import records, users
from tests.integration.nodes import node_site
from tests.tools import waiting

pytestmark = pytest.mark.skipif(
    users.of_node(allow_root=False).default is None, reason="only root with its capabilities can change users"
)
UNPRIVILEGED = str(users.UNPRIVILEGED)


@contextlib.contextmanager
def open_folder() -> Iterator[pathlib.Path]:
    """A folder that every user may enter. `tmp_path` stays none: whoever starts pytest closes the folder above it."""
    with tempfile.TemporaryDirectory(prefix="carico-users-") as made:
        pathlib.Path(made).chmod(0o755)
        yield pathlib.Path(made)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    with open_folder() as made:
        yield made


@pytest.fixture(scope="module")
def site() -> Iterator[node_site.NodeSite]:
    # Even where every directory above the cluster's files may be passed through.
    with open_folder() as root, node_site.running(root, "--latency", "0.1", "--memory-bytes", str(2**28)) as found:
        yield found


def log(site: node_site.NodeSite, pod: str) -> str:
    found = site.request("GET", f"{node_site.PODS}/{pod}/log")
    assert isinstance(found, str)
    return found


def test_a_pod_cannot_read_tokens_keys_and_state(site: node_site.NodeSite) -> None:
    secret = [site.root / "kubeconfig", site.root / "api" / "token", site.root / "node" / "runtime.json"]
    site.run("thief", "sh", "-c", f"cat {' '.join(shlex.quote(str(path)) for path in secret)}; ls {site.root}/node")
    site.until_phase("thief", "Failed")
    lines = log(site, "thief").lower().splitlines()
    assert len(lines) == len(secret) + 1
    assert all("permission denied" in line for line in lines)


def test_a_pod_runs_as_the_unprivileged_user_with_its_message_output_and_volumes(site: node_site.NodeSite) -> None:
    command = (
        "id -u; id -g; id -G; echo to-stdout > /dev/stdout; echo in > /cache/deep/file; cat /cache/deep/file;"
        'stat -c %u /cache; echo "last words" > $CARICO_TERMINATION_MESSAGE_PATH'
    )
    mounts = [{"name": "v", "mountPath": "/cache"}, {"name": "v", "mountPath": "/cache/deep", "subPath": "deep"}]
    site.run(
        "plain", "sh", "-c", command, volumes=[{"name": "v", "emptyDir": {}}], container={"volumeMounts": mounts}
    )  # fmt: skip
    ended = node_site.terminated(site.until_phase("plain", "Succeeded", "Failed"))
    said = log(site, "plain")
    assert said.split() == [UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED, "to-stdout", "in", UNPRIVILEGED]
    assert (ended["exitCode"], ended["message"]) == (0, "last words\n")


def test_a_workload_of_ours_reports_and_probes_have_the_containers_user(site: node_site.NodeSite) -> None:
    site.run("pi", "carico-workload", "pi", "--seconds", "0.2")
    assert json.loads(node_site.terminated(site.until_phase("pi", "Succeeded"))["message"])["workload"] == "pi"
    probe = {"exec": {"command": ["sh", "-c", "[ $(id -u) = 1234 ]"]}, "periodSeconds": 1}
    site.run(
        "probed", "sh", "-c", "id -u; exec sleep 600", container={"readinessProbe": probe},
        securityContext={"runAsUser": 1234},
    )  # fmt: skip
    site.until(lambda: is_ready(site, "probed"), "the probe to pass")
    assert log(site, "probed").split() == ["1234"]
    site.request("DELETE", f"{node_site.PODS}/probed?gracePeriodSeconds=0")


async def test_a_probe_does_not_follow_a_link_to_where_its_user_may_not_go(folder: pathlib.Path) -> None:
    """Below a folder that root alone may enter are some that everyone may read, if they get there."""
    inside, link = folder / "private" / "inside", folder / "work"
    inside.mkdir(parents=True)
    (inside / "secret").write_text("secret")
    link.symlink_to(inside)
    asked = handlers.Exec(command=("cat", "secret"))
    where = handlers.Inside(
        address="", env={}, cwd=str(link), procs=(), user=users.Ids(uid=users.UNPRIVILEGED, gid=users.UNPRIVILEGED)
    )
    assert await handlers.perform(asked, where, timeout_s=waiting.WAIT_S) is None
    inside.parent.chmod(0o700)
    refused = await handlers.perform(asked, where, timeout_s=waiting.WAIT_S)
    assert refused is not None
    assert "secret" not in refused


async def test_no_container_and_no_probe_reads_what_is_closed(folder: pathlib.Path) -> None:
    """As where a node's Pods run as the user that its keys belong to: permissions do not tell them apart."""
    token = folder / "closed" / "token"
    for name in ("closed", "open", "site"):
        (folder / name).mkdir()
        (folder / name / "token").write_text(f"{name}\n")
    flags = ("--latency", "0.1", "--cgroups", "none", "--closed", str(token.parent))
    with node_site.running(folder / "site", *flags) as site:
        site.run("thief", "sh", "-c", f"cat {token}; cat {folder}/open/token")
        site.until_phase("thief", "Succeeded")
        if "no Landlock" in (site.root / "node" / "runtime.log").read_text():
            pytest.skip("the kernel has no Landlock")
        refused, read = log(site, "thief").lower().splitlines()
        assert "permission denied" in refused
        assert read == "open"
    asked = handlers.Exec(command=("cat", str(token)))
    where = handlers.Inside(address="", env={}, cwd="/", procs=(), closed=(str(token.parent),))
    assert "Permission denied" in str(await handlers.perform(asked, where, timeout_s=waiting.WAIT_S))


def is_ready(site: node_site.NodeSite, pod: str) -> bool:
    """Whether the only container of a Pod is ready."""
    return bool(site.status(pod).get("containerStatuses", [{}])[0].get("ready", False))


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"runAsUser": 0}, "runAsUser 0"), ({"runAsUser": -1}, "runAsUser -1"), ({"runAsGroup": 42}, "runAsGroup 42"),
        # Of everyone that /etc/passwd lists: "daemon" is everywhere.
        ({"runAsUser": 1}, "runAsUser 1, an account of this machine"),
    ],
)  # fmt: skip
def test_root_is_refused_and_named_in_the_status(site: node_site.NodeSite, context: dict[str, int], words: str) -> None:
    name = words.split(",")[0].lower().replace(" ", "")
    site.run(name, "id", securityContext=context)
    site.until(lambda: "waiting" in str(site.status(name)), "the refusal")
    waiting = site.status(name)["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert words in waiting["message"]
    site.request("DELETE", f"{node_site.PODS}/{name}?gracePeriodSeconds=0")


def test_root_is_allowed_by_the_node_and_nothing_of_its_pods_is_left(tmp_path: pathlib.Path) -> None:
    with node_site.running(tmp_path, "--latency", "0.1", "--cgroups", "none", "--allow-root") as site:
        site.run("asked", "id", "-u", securityContext={"runAsUser": 0})
        site.run("default", "id", "-u")
        for name, uid in (("asked", "0"), ("default", UNPRIVILEGED)):
            site.until_phase(name, "Succeeded")
            assert log(site, name).split() == [uid]
        shared = records.open_root(tmp_path / "node", is_private=True).shared
        assert shared.stat().st_mode & 0o777 == 0o711
        assert os.listdir(shared)
    assert not shared.exists()
