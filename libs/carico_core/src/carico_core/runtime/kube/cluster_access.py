"""How to reach the Kubernetes API: from in-cluster files or a kubeconfig, as one `Access`.

Plain kubeconfigs (token, token file, client certificate, basic auth) are read here. The `kubernetes` package takes
30 MB and half a second to import, so it is imported only for a user with an exec plugin or an auth provider; and yaml
(4 % of the imports of a contained node) only for a kubeconfig that is not JSON.
"""

import base64
import binascii
import contextlib
import dataclasses
import os.path
import pathlib
import ssl
import tempfile
import urllib.parse
from collections.abc import Mapping
from typing import Any

import orjson

from carico_core.domain import errors
from carico_core.runtime.kube import credentials as kube_credentials
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings

# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """How the Kubernetes API is used."""

    kubeconfig: str = settings.setting(
        "", help="path of a kubeconfig; empty: this Pod's service account, else ~/.kube/config"
    )
    context: str = settings.setting("", help="context of the kubeconfig; empty: its current one")
    in_flight: int = settings.setting(
        160,
        help="maximum number of concurrent requests, not counting watches",
        why="the binds of a scheduler and some others; the API server's priority level for workloads has 245 seats",
        minimum=1,
        maximum=1024,
    )
    rate_per_s: float = settings.setting(
        0.0,
        help="maximum number of requests per second, not counting watches; 0: no limit",
        unit="1/s",
        why="the API server itself limits clients fairly; for APIs that do not",
        minimum=0.0,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one API server."""

    server: str
    tls: ssl.SSLContext | None
    credentials: kube_credentials.Credentials
    server_hostname: str | None = None
    proxy: str | None = None


def load(kubeconfig: str, *, context: str, environ: Mapping[str, str], clock: clocks.Clock) -> Access:
    """Return the access by `kubeconfig` (a path), else this Pod's service account, else $KUBECONFIG or ~/.kube/config.

    Blocks, as a plugin may run a process. Raises `KubeconfigError` with one line that a person can act on.
    """
    if not kubeconfig and (SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster(environ=environ, clock=clock)
    return from_file(_path(kubeconfig, environ), context=context, clock=clock)


def own_namespace() -> str | None:
    """Return the namespace of the Pod that this process runs in; None outside of a Pod."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or None
    except OSError:
        return None


def context_namespace(kubeconfig: str, *, context: str, environ: Mapping[str, str]) -> str | None:
    """Return the namespace of the kubeconfig's context, as kubectl uses it; None if there is none."""
    if not kubeconfig and (SERVICE_ACCOUNT / "token").is_file():
        return own_namespace()
    path = _path(kubeconfig, environ)
    try:
        document = _read(path)
        name = context or str(document.get("current-context") or "")
        found = _entry(path, document, "contexts", "context", name).get("namespace")
    except errors.KubeconfigError:
        return None
    return str(found) if found else None


def _path(kubeconfig: str, environ: Mapping[str, str]) -> pathlib.Path:
    path = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    return pathlib.Path(path.split(os.path.pathsep)[0]).expanduser()


def _in_cluster(*, environ: Mapping[str, str], clock: clocks.Clock) -> Access:
    """Return the access of a Pod's service account."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    tls = _tls_context(f"{SERVICE_ACCOUNT}", cafile=str(SERVICE_ACCOUNT / "ca.crt"), cadata=None, verify=True)
    return Access(
        server=f"https://{host}:{port}",
        tls=tls,
        credentials=kube_credentials.FileCredentials(SERVICE_ACCOUNT / "token", clock=clock),
    )


def from_file(path: pathlib.Path, *, context: str, clock: clocks.Clock) -> Access:
    """Return the access that a kubeconfig file describes; an empty `context` means its current one."""
    document = _read(path)
    name = context or document.get("current-context") or ""
    if not name:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: no context: set current-context, or name one of {_names(document, 'contexts')}"
        )
    chosen = _entry(path, document, "contexts", "context", name)
    cluster = _entry(path, document, "clusters", "cluster", str(chosen.get("cluster", "")))
    user = _entry(path, document, "users", "user", str(chosen["user"])) if chosen.get("user") else {}
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise errors.KubeconfigError(f"kubeconfig {path}: cluster of context {name!r} has no http(s) server URL")
    if "exec" in user or "auth-provider" in user:
        return _from_plugin(path, document, name=name, cluster=cluster, server=server)
    tls = _file_tls(path, cluster=cluster, user=user) if server.startswith("https") else None
    server, in_url = _split_user(server)
    credentials = _file_credentials(path, {**in_url, **user}, clock=clock)
    return _access(server, tls=tls, cluster=cluster, credentials=credentials)


def _access(
    server: str, *, tls: ssl.SSLContext | None, cluster: Mapping[str, Any], credentials: kube_credentials.Credentials
) -> Access:
    return Access(
        server=server,
        tls=tls,
        credentials=credentials,
        server_hostname=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
    )


def _read(path: pathlib.Path) -> dict[str, Any]:
    try:
        document = _parsed(path.read_text())
    except FileNotFoundError as error:
        raise errors.KubeconfigError(
            f"kubeconfig {path} does not exist: start a cluster, or set KUBECONFIG or --kubeconfig to yours"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise errors.KubeconfigError(f"kubeconfig {path} cannot be read: {error}") from error
    except ValueError as error:
        raise errors.KubeconfigError(f"kubeconfig {path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise errors.KubeconfigError(
            f"kubeconfig {path} is not a kubeconfig: expected a mapping with clusters, contexts and users"
        )
    return document


def _parsed(text: str) -> Any:
    """Return the document of a YAML text. Raises `ValueError`."""
    # JSON is YAML too.
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(_one_line(error)) from error


def _entry(path: pathlib.Path, document: Mapping[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    for item in _items(document, section):
        if item.get("name") == name:
            value = item.get(key) or {}
            if isinstance(value, dict):
                return value
    raise errors.KubeconfigError(f"kubeconfig {path}: no {key} {name!r}; it has {_names(document, section)}")


def _items(document: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    items = document.get(section)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _names(document: Mapping[str, Any], section: str) -> str:
    return ", ".join(str(item.get("name")) for item in _items(document, section)) or f"no {section}"


def _file_credentials(
    path: pathlib.Path, user: Mapping[str, Any], *, clock: clocks.Clock
) -> kube_credentials.Credentials:
    if user.get("token"):
        return kube_credentials.FixedCredentials(value=f"Bearer {user['token']}")
    if user.get("tokenFile"):
        return kube_credentials.FileCredentials(path.parent / str(user["tokenFile"]), clock=clock)
    if "username" in user and "password" in user:
        pair = base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
        return kube_credentials.FixedCredentials(value=f"Basic {pair}")
    return kube_credentials.FixedCredentials()


def _split_user(server: str) -> tuple[str, dict[str, str]]:
    """Split `http://name:password@host` into the URL and the user, which kubectl sends too.

    It is the only credential that kubectl sends over plain HTTP (there, client-go's clientcmd drops those of `users`).
    """
    parts = urllib.parse.urlsplit(server)
    if parts.username is None or parts.password is None:
        return server, {}
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    name, password = (urllib.parse.unquote(each) for each in (parts.username, parts.password))
    return bare, {"username": name, "password": password}


def _file_tls(path: pathlib.Path, *, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _pem(path, cluster, "certificate-authority")
    verify = not cluster.get("insecure-skip-tls-verify", False)
    tls = _tls_context(f"kubeconfig {path}", cafile=None, cadata=authority, verify=verify)
    certificate, key = _pem(path, user, "client-certificate"), _pem(path, user, "client-key")
    if certificate is not None and key is not None:
        _load_pair(path, tls, certificate, key)
    return tls


def _pem(path: pathlib.Path, section: Mapping[str, Any], key: str) -> str | None:
    """Return the PEM text of `<key>-data` (base64), or of the file that `<key>` names, relative to the kubeconfig."""
    try:
        if section.get(f"{key}-data"):
            return base64.b64decode(str(section[f"{key}-data"]), validate=True).decode()
        if section.get(key):
            return (path.parent / str(section[key])).read_text()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise errors.KubeconfigError(f"kubeconfig {path}: {key}-data is not base64 of a PEM text") from error
    except OSError as error:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: {key} {section[key]} cannot be read: {error.strerror}"
        ) from error
    return None


def _tls_context(where: str, *, cafile: str | None, cadata: str | None, verify: bool) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=cafile, cadata=cadata)
    except (OSError, ValueError) as error:
        raise errors.KubeconfigError(
            f"{where}: the certificate authority cannot be used: {_one_line(error)}; expected PEM certificates"
        ) from error
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def _load_pair(path: pathlib.Path, tls: ssl.SSLContext, certificate: str, key: str) -> None:
    # OpenSSL reads pairs from files only; this one is readable by us only, and deleted at once.
    with tempfile.NamedTemporaryFile("w", prefix="carico-", suffix=".pem") as pair:
        pair.write(f"{certificate}\n{key}\n")
        pair.flush()
        try:
            tls.load_cert_chain(pair.name)
        except (OSError, ValueError) as error:
            raise errors.KubeconfigError(
                f"kubeconfig {path}: client certificate and key cannot be used: {_one_line(error)}"
            ) from error


def _from_plugin(
    path: pathlib.Path, document: dict[str, Any], *, name: str, cluster: Mapping[str, Any], server: str
) -> Access:
    try:
        import kubernetes.client
        import kubernetes.config
        import kubernetes.config.kube_config
    except ModuleNotFoundError as error:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: context {name!r} has a plugin, which needs the `kubernetes` package and the plugin's "
            "own program: `pip install kubernetes` next to CARICO, or use a context with a token or a certificate"
        ) from error

    # The package has no type information.
    make_loader: Any = kubernetes.config.kube_config.KubeConfigLoader
    configuration = kubernetes.client.Configuration()
    try:
        loader = make_loader(document, active_context=name, config_base_path=str(path.parent))
        loader.load_and_set(configuration)
    except (kubernetes.config.ConfigException, KeyError, TypeError, OSError) as error:
        raise errors.KubeconfigError(f"kubeconfig {path}: {_one_line(error)}") from error
    if not configuration.api_key and not configuration.cert_file:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: the plugin of context {name!r} returned no token and no certificate: run it by hand"
        )
    tls = None
    if server.startswith("https"):
        verify = not cluster.get("insecure-skip-tls-verify", False)
        tls = _tls_context(f"kubeconfig {path}", cafile=configuration.ssl_ca_cert, cadata=None, verify=verify)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    return _access(
        server, tls=tls, cluster=cluster, credentials=kube_credentials.PluginCredentials(loader, configuration)
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
