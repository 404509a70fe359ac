"""Kubeconfig files: every kind of user, and one clear line for whatever is wrong."""

import base64
import json
import pathlib
import ssl
import subprocess
import sys
from typing import Any

import pytest
import yaml

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import kubeconfig as kubeconfigs
from carico_core.runtime.process import clock as clocks

SERVER = "https://127.0.0.1:6443"


def write(folder: pathlib.Path, *, user: dict[str, Any] | None = None, **cluster: Any) -> pathlib.Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": SERVER} | cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "lost", "context": {"cluster": "gone", "user": "u"}},
            {"name": "anonymous", "context": {"cluster": "c"}},
        ],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def load(path: pathlib.Path, *, context: str = "") -> accesses.Access:
    return kubeconfigs.read(path, context=context, clock=clocks.FakeClock())


async def test_a_token(tmp_path: pathlib.Path) -> None:
    access = load(write(tmp_path, user={"token": "abc"}))
    assert access.server == SERVER
    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert await access.credentials.authorization() == "Bearer abc"


async def test_name_and_password(tmp_path: pathlib.Path) -> None:
    access = load(write(tmp_path, user={"username": "me", "password": "p:w"}))
    expected = "Basic " + base64.b64encode(b"me:p:w").decode()
    assert await access.credentials.authorization() == expected


async def test_name_and_password_in_the_url_give_way_to_a_token(tmp_path: pathlib.Path) -> None:
    server = "http://me:p%3Aw@127.0.0.1:8080"
    for user, expected in (({}, "Basic " + base64.b64encode(b"me:p:w").decode()), ({"token": "abc"}, "Bearer abc")):
        access = load(write(tmp_path, user=user, server=server))
        assert access.server == "http://127.0.0.1:8080"
        assert await access.credentials.authorization() == expected


async def test_a_plain_server_needs_no_credentials(tmp_path: pathlib.Path) -> None:
    access = load(write(tmp_path, server="http://127.0.0.1:8080/"), context="anonymous")
    assert access.server == "http://127.0.0.1:8080"
    assert access.tls is None
    assert await access.credentials.authorization() is None


def test_tls_and_proxy_of_the_kubeconfig(tmp_path: pathlib.Path) -> None:
    told: dict[str, Any] = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kube",
        "proxy-url": "http://proxy:3128",
    }
    access = load(write(tmp_path, **told))
    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_NONE
    assert (access.server_hostname, access.proxy) == ("kube", "http://proxy:3128")


def test_certificates_in_files_or_inline(tmp_path: pathlib.Path, authority: str) -> None:
    (tmp_path / "pair.pem").write_text(authority)
    data = base64.b64encode(authority.encode()).decode()
    user = {"client-certificate": "pair.pem", "client-key-data": data}
    for cluster in ({"certificate-authority": "pair.pem"}, {"certificate-authority-data": data}):
        access = load(write(tmp_path, user=user, **cluster))
        assert access.tls is not None
        assert [found["subject"] for found in access.tls.get_ca_certs()] == [((("commonName", "test"),),)]


PLUGIN = """
import json, pathlib, sys
count = pathlib.Path(sys.argv[1])
count.write_text(str(int(count.read_text() or 0) + 1 if count.exists() else 1))
status = {"token": "made-" + count.read_text(), "expirationTimestamp": "2099-01-01T00:00:00Z"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


def test_an_exec_plugin_without_the_package_says_what_it_needs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "kubernetes"]:
        monkeypatch.delitem(sys.modules, name)
    # None in sys.modules: as if it were not installed.
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(errors.KubeconfigError, match="needs the `kubernetes` package"):
        load(write(tmp_path, user={"exec": {"command": "x"}}))


async def test_an_exec_plugin_makes_and_renews_the_token(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "count")],
        "interactiveMode": "Never",
    }
    access = load(write(tmp_path, user={"exec": plugin}))
    assert await access.credentials.authorization() == "Bearer made-1"
    assert await access.credentials.authorization() == "Bearer made-1"
    access.credentials.expire()
    assert await access.credentials.authorization() == "Bearer made-2"


def test_an_exec_plugin_that_fails_is_one_line(tmp_path: pathlib.Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin", "interactiveMode": "Never"}
    with pytest.raises(errors.KubeconfigError) as caught:
        load(write(tmp_path, user={"exec": plugin}))
    assert "\n" not in str(caught.value)
    assert "plugin" in str(caught.value)


BAD: dict[str, tuple[str, str]] = {
    "not YAML": ("clusters: [", "is not YAML"),
    "tabs": ("a:\n\t- b", "is not YAML"),
    "empty": ("", "is not a kubeconfig"),
    "a list": ("[1, 2]", "is not a kubeconfig"),
    "a word": ("kubeconfig", "is not a kubeconfig"),
    "no context": ("clusters: []\n", "no context"),
    "contexts of another shape": ("current-context: a\ncontexts: {a: b}\n", "no context 'a'"),
    "items of another shape": ("current-context: a\ncontexts: [1, null]\n", "no context 'a'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_clear_line(name: str, tmp_path: pathlib.Path) -> None:
    text, expected = BAD[name]
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(errors.KubeconfigError) as caught:
        load(path)
    said = str(caught.value)
    assert expected in said
    assert str(path) in said
    assert "\n" not in said


def test_a_file_without_end_is_one_clear_line() -> None:
    with pytest.raises(
        errors.KubeconfigError, match=r"^kubeconfig /dev/zero is not a kubeconfig: got more than 16 MiB$"
    ):
        load(pathlib.Path("/dev/zero"))


def test_a_binary_file_is_one_clear_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(errors.KubeconfigError, match=r"cannot be read|is not YAML"):
        load(path)


def test_a_missing_file_says_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.KubeconfigError, match=r"does not exist.*KUBECONFIG"):
        load(tmp_path / "none")
    with pytest.raises(errors.KubeconfigError, match=r"cannot be read: Is a directory$"):
        load(tmp_path)


def test_unknown_names_say_what_there_is(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path)
    with pytest.raises(errors.KubeconfigError, match="no context 'nope'; it has here, lost, anonymous"):
        load(path, context="nope")
    with pytest.raises(errors.KubeconfigError, match="no cluster 'gone'; it has c"):
        load(path, context="lost")


def test_a_server_that_is_no_url(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.KubeconfigError, match="no http"):
        load(write(tmp_path, server="127.0.0.1:6443"))


@pytest.mark.parametrize(
    "cluster",
    [
        {"certificate-authority-data": "%%%"},
        {"certificate-authority-data": base64.b64encode(b"not a certificate").decode()},
        {"certificate-authority-data": base64.b64encode(b"\xff\xfe").decode()},
        {"certificate-authority": "no-such-file.pem"},
    ],
)
def test_a_bad_authority_is_one_clear_line(cluster: dict[str, Any], tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.KubeconfigError) as caught:
        load(write(tmp_path, **cluster))
    assert "authority" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_client_certificate_is_one_clear_line(tmp_path: pathlib.Path) -> None:
    data = base64.b64encode(b"nonsense").decode()
    with pytest.raises(errors.KubeconfigError, match="client certificate"):
        load(write(tmp_path, user={"client-certificate-data": data, "client-key-data": data}))


def test_a_plain_kubeconfig_needs_no_kubernetes_package(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, user={"token": "abc"})
    program = (
        "import sys, json\n"
        "from carico_core.runtime.kube import cluster_access\n"
        "from carico_core.runtime.process import clock\n"
        f"cluster_access.load({json.dumps(str(path))}, context='', environ={{}}, clock=clock.SystemClock())\n"
        "print('kubernetes' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "False\n"


def test_json_is_read_without_a_yaml_parser(tmp_path: pathlib.Path) -> None:
    """Importing one takes a new node of compose, which has half a CPU, 50 ms."""
    path = write(tmp_path)
    path.write_text(json.dumps(yaml.safe_load(path.read_text())))
    script = (
        "import sys\nfrom carico_core.runtime.kube import cluster_access\n"
        "from carico_core.runtime.process import clock\n"
        "found = cluster_access.load(sys.argv[1], context='', environ={}, clock=clock.SystemClock())\n"
        "print(found.server, 'yaml' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [SERVER, "False"]
