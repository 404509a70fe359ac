"""The real control plane's files: its identities, its command lines, its audit log."""

import json
import os
import pathlib
import shutil
import ssl
import stat
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.control_plane import certificates, commands, identity
from tests.tools.api import audit_log

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
PORTS = {part: 20_000 + number for number, part in enumerate((commands.ETCD, commands.API, commands.CONTROLLERS,
                                                              commands.SCHEDULER, commands.KWOK))}  # fmt: skip


def plane(directory: pathlib.Path, **network: Any) -> commands.CommandLines:
    return commands.CommandLines(
        binaries={part: f"/tools/{part}" for part in PORTS},
        directory=directory,
        network=commands.Listeners(ports=PORTS, **network),
        identities=identity.Identities(directory / "identities", {"PATH": os.defpath}),
    )


def flag(argv: tuple[str, ...], name: str) -> str:
    (found,) = [word.partition("=")[2] for word in argv if word.startswith(f"--{name}=")]
    return found


@needs_openssl
def test_what_is_issued_is_verified_by_its_authority_alone(tmp_path: pathlib.Path) -> None:
    ours = certificates.Authority(directory=tmp_path / "ours", environ={"PATH": os.defpath})
    other = certificates.Authority(directory=tmp_path / "other", environ={"PATH": os.defpath})
    ours.ensure("ours")
    other.ensure("other")
    pair = ours.issue("api", user="api", groups=("a", "b"), hosts=("127.0.0.1", "localhost"))
    assert handshake(pair, ours.pair.certificate, "127.0.0.1")
    assert not handshake(pair, ours.pair.certificate, "another.name")
    assert not handshake(pair, other.pair.certificate, "127.0.0.1")
    before = pair.certificate.read_bytes()
    assert ours.issue("api", user="api").certificate.read_bytes() == before


def handshake(pair: certificates.KeyPair, authority: pathlib.Path, host: str) -> bool:
    """True where a client that trusts the authority accepts the server under that name; no socket is needed."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(pair.certificate, pair.key)
    client = ssl.create_default_context(cafile=str(authority))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done = 0
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return done > 0


@needs_openssl
def test_tokens_stay_the_same_and_are_the_owners_alone(tmp_path: pathlib.Path) -> None:
    made = plane(tmp_path)
    made.write_configuration("x", users={"node-1": identity.node_user("node-1")})
    token = made.identities.token(identity.COMPONENTS[identity.ADMIN])
    made.write_configuration("x", users={"node-2": identity.node_user("node-2")})
    assert made.identities.token(identity.COMPONENTS[identity.ADMIN]) == token
    config = json.loads(made.identities.kubeconfig(identity.ADMIN).read_text())
    assert config["users"][0]["user"] == {"token": token}
    assert config["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{PORTS[commands.API]}"
    keys = [path for path in made.identities.directory.rglob("*") if path.suffix in (".key", ".csv", ".kubeconfig")]
    assert len(keys) >= 8
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert ",system:node:node-2,node-2,system:nodes" in made.identities.token_file.read_text()


def test_without_openssl_there_is_one_line_that_says_what_to_do(tmp_path: pathlib.Path) -> None:
    authority = certificates.Authority(directory=tmp_path, environ={"PATH": str(tmp_path)})
    with pytest.raises(
        errors.EnvironmentUnfit, match="openssl is not on PATH: install it, or use --control-plane embedded"
    ):
        authority.ensure("x")


def test_commands_listen_on_loopback_with_rbac_and_reach_each_other(tmp_path: pathlib.Path) -> None:
    made = plane(tmp_path)
    api = made.api()
    assert flag(api, "etcd-servers") == flag(made.etcd(), "listen-client-urls") == "https://127.0.0.1:20000"
    assert flag(made.etcd(), "client-cert-auth") == flag(made.etcd(), "peer-client-cert-auth") == "true"
    authority = str(made.identities.store.pair.certificate)
    assert {flag(made.etcd(), "trusted-ca-file"), flag(made.etcd(), "peer-trusted-ca-file")} == {authority}
    assert authority == flag(api, "etcd-cafile") != flag(api, "client-ca-file")
    assert flag(api, "authorization-mode") == "Node,RBAC"
    assert flag(api, "endpoint-reconciler-type") == "none"
    for argv in (api, made.controllers(), made.scheduler()):
        assert flag(argv, "bind-address") == "127.0.0.1"
    assert flag(made.kwok(), "server-address") == "127.0.0.1:20004"


def test_beyond_loopback_the_api_advertises_its_address(tmp_path: pathlib.Path) -> None:
    made = plane(tmp_path, address="172.31.0.1", hosts=("api.test",))
    assert flag(made.api(), "advertise-address") == "172.31.0.1"
    assert {"172.31.0.1", "127.0.0.1", "10.96.0.1", "kubernetes.default.svc", "api.test"} <= set(made.network.names)
    assert made.network.api_url == "https://172.31.0.1:20001"


def test_bindings_that_were_refused_do_not_count(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "bindings.log"

    def line(name: str | None, node: str, code: int) -> str:
        about = {"namespace": "d"} | ({"name": name} if name else {})
        binding = {"metadata": {"name": "older"}, "target": {"name": node}}
        return json.dumps({"objectRef": about, "requestObject": binding, "responseStatus": {"code": code}})

    log.write_text("\n".join([line("a", "n1", 201), line("a", "n2", 409), line(None, "n3", 201)]) + "\n")
    assert audit_log.bindings(log) == {"d/a": ["n1"], "d/older": ["n3"]}
