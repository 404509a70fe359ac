"""Keys and configurations that `carico bus-config` writes."""

import pathlib
import stat
import subprocess

import pytest
from click import testing

from carico_auth import key_folder
from carico_cli.clusters import bus_config
from carico_core.domain import errors
from carico_core.runtime.bus.security import nkeys
from carico_local import nats_server

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
FILES = {
    "callout": DEPLOY / "k8s/components/callout/bus.conf",
    "static": DEPLOY / "nats/static.conf",
}


def run(*argv: str) -> str:
    result = testing.CliRunner().invoke(bus_config.command, argv, catch_exceptions=False, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.mark.parametrize("kind", FILES)
def test_the_templates_of_deploy_are_those_of_the_roles(kind: str) -> None:
    assert FILES[kind].read_text() == run(kind, "--template"), (
        f"write it again: carico bus-config {kind} --template > {FILES[kind]}"
    )


@pytest.mark.parametrize("kind", FILES)
def test_nats_takes_what_is_written(kind: str, tmp_path: pathlib.Path) -> None:
    run(kind, "--out", str(tmp_path))
    config = tmp_path / "nats.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path / "js"}" }}\ninclude "bus.conf"\n')
    done = subprocess.run([str(nats_server.binary()), "-t", "-c", str(config)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", FILES)
def test_nats_takes_a_template_with_the_keys_in_its_environment(kind: str, tmp_path: pathlib.Path) -> None:
    run(kind, "--out", str(tmp_path))
    environ = dict(line.split("=") for line in (tmp_path / "public.env").read_text().splitlines())
    part = FILES[kind].read_text().partition("tls {")[0]
    (tmp_path / "nats.conf").write_text(f'jetstream {{ store_dir: "{tmp_path / "js"}" }}\n{part}')
    argv = [str(nats_server.binary()), "-t", "-c", str(tmp_path / "nats.conf")]
    done = subprocess.run(argv, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    assert subprocess.run(argv, capture_output=True, env={}).returncode != 0


def test_seed_files_have_mode_0600_and_are_kept(tmp_path: pathlib.Path) -> None:
    run("static", "--out", str(tmp_path))
    before = (tmp_path / "bus.conf").read_text()
    for path in (tmp_path / "keys").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().strip() not in before
    run("static", "--out", str(tmp_path))
    assert (tmp_path / "bus.conf").read_text() == before


def test_a_rotated_key_is_let_in_until_it_is_retired(tmp_path: pathlib.Path) -> None:
    run("static", "--out", str(tmp_path))
    keys = key_folder.KeyFolder(tmp_path / "keys")
    old = keys.publics("scheduler", nkeys.Kind.USER)[0]
    run("static", "--out", str(tmp_path), "--rotate", "scheduler")
    new, previous = keys.publics("scheduler", nkeys.Kind.USER)
    assert previous == old != new
    assert (tmp_path / "bus.conf").read_text().count(old) == (tmp_path / "bus.conf").read_text().count(new) == 1
    with pytest.raises(errors.SettingsError, match="first `--retire scheduler`"):
        run("static", "--out", str(tmp_path), "--rotate", "scheduler")
    run("static", "--out", str(tmp_path), "--retire", "scheduler")
    assert old not in (tmp_path / "bus.conf").read_text()
    with pytest.raises(errors.SettingsError, match="has no previous key"):
        run("static", "--out", str(tmp_path), "--retire", "scheduler")


def test_agents_with_keys_of_their_nodes_never_share_one_again(tmp_path: pathlib.Path) -> None:
    run("static", "--out", str(tmp_path), "--node", "n1", "--node", "ip-1.ec2")
    run("static", "--out", str(tmp_path), "--node", "n3")
    config = (tmp_path / "bus.conf").read_text()
    assert "carico.v1.capacity.ip-1_ec2" in config
    assert "carico.v1.capacity.n1" in config
    assert "carico.v1.capacity.n3" in config
    assert not (tmp_path / "keys/agent.nk").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [(("static",), "--out: got none"),
     (("static", "--rotate", "x", "--out", "DIR"), "expected no --rotate yet: .*/keys has no keys to rotate"),
     (("static", "--node", "A", "--out", "DIR"), "--node: got 'A'"),
     (("callout", "--node", "a", "--out", "DIR"), "expected static: with callout"),
     (("callout", "--tls-cert", "a", "--out", "DIR"), "expected both or none"),
     (("static", "--out", "/proc/none"), "expected a folder to write keys to")],
)  # fmt: skip
def test_a_mistake_gives_one_line(argv: tuple[str, ...], words: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match=words):
        run(*(str(tmp_path / "out") if part == "DIR" else part for part in argv))


def test_a_folder_that_cannot_be_written_gives_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bus.conf").mkdir()
    with pytest.raises(errors.EnvironmentUnfit, match=r"^--out: cannot write to .* \(Is a directory\)"):
        run("static", "--out", str(tmp_path))
    (tmp_path / "keys/agent.nk").unlink()
    # As on a file system that cannot be written.
    (tmp_path / "keys/agent.nk").symlink_to(tmp_path / "absent/agent.nk")
    with pytest.raises(errors.SettingsError, match="/keys: got File exists, expected a folder to write keys to"):
        run("static", "--out", str(tmp_path))
    (tmp_path / "keys/reader.previous.nk").mkdir()
    with pytest.raises(errors.SettingsError, match="/keys: got Is a directory, expected a folder to write keys to"):
        run("static", "--out", str(tmp_path), "--retire", "reader")


def test_a_file_without_a_seed_is_named_without_its_content(tmp_path: pathlib.Path) -> None:
    run("callout", "--out", str(tmp_path))
    (tmp_path / "keys/issuer.nk").write_text("secret")
    with pytest.raises(errors.SettingsError, match=r"issuer\.nk.*expected a seed of kind account") as caught:
        run("callout", "--out", str(tmp_path))
    assert "secret" not in str(caught.value)
