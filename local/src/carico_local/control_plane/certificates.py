"""The certificate authority of one cluster, and the certificates that it issues, made by the openssl command.

The command rather than a package: nearly every machine has it, and no other code would need the package.
"""

import dataclasses
import ipaddress
import os
import pathlib
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from carico_core.domain import errors

# A local cluster lives for days; ten years, as in minikube, never expire.
DAYS = 3650
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# Python's strict verification (3.13 and later) requires the key identifiers.
_CA_EXTENSIONS = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
_LEAF_EXTENSIONS = (
    "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={usages}\n"
    "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its key, as files."""

    certificate: pathlib.Path
    key: pathlib.Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """An authority whose files are in `directory`. `environ`: its PATH is searched for openssl."""

    directory: pathlib.Path
    environ: Mapping[str, str]

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key."""
        return self._pair("ca")

    def ensure(self, name: str) -> KeyPair:
        """Return the authority's own pair; create it where absent. Raises `EnvironmentUnfit` without openssl."""
        pair = self.pair
        if not pair.certificate.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            config = self._write("ca.cnf", f"[req]\ndistinguished_name=dn\n[dn]\n[ca]\n{_CA_EXTENSIONS}")
            self._openssl(
                "req", "-x509", *_KEY, "-config", str(config), "-extensions", "ca", "-subj", f"/CN={name}",
                "-days", str(DAYS), "-keyout", str(pair.key), "-out", str(pair.certificate),
            )  # fmt: skip
        return pair

    def issue(self, name: str, *, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> KeyPair:
        """Return the pair stored under `name`; create it where absent.

        user, groups: common name and organisations, which Kubernetes reads as a client's user and groups.
        hosts: names and addresses of a server; without any, it is a client's certificate.
        """
        pair = self._pair(name)
        if pair.certificate.exists():
            return pair
        subject = "".join((*(f"/O={group}" for group in groups), f"/CN={user}"))
        config = self._write(f"{name}.cnf", "[req]\ndistinguished_name=dn\n[dn]\n")
        request = self.directory / f"{name}.csr"
        self._openssl(
            "req",
            "-new",
            *_KEY,
            "-config",
            str(config),
            "-subj",
            subject,
            "-keyout",
            str(pair.key),
            "-out",
            str(request),
        )
        extensions = self._write(f"{name}.ext", _extensions(hosts))
        self._openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key),
            "-set_serial", f"0x{secrets.token_hex(16)}", "-days", str(DAYS), "-extfile", str(extensions),
            "-out", str(pair.certificate),
        )  # fmt: skip
        for path in (config, request, extensions):
            path.unlink()
        return pair

    def ensure_signing_key(self, name: str) -> KeyPair:
        """Return the key that signs service account tokens; its public key takes the certificate's place."""
        pair = KeyPair(certificate=self.directory / f"{name}.pub", key=self.directory / f"{name}.key")
        if not pair.certificate.exists():
            self._openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(pair.key))
            self._openssl("pkey", "-in", str(pair.key), "-pubout", "-out", str(pair.certificate))
        return pair

    def _pair(self, name: str) -> KeyPair:
        return KeyPair(certificate=self.directory / f"{name}.crt", key=self.directory / f"{name}.key")

    def _write(self, name: str, text: str) -> pathlib.Path:
        path = self.directory / name
        path.write_text(text, encoding="ascii")
        return path

    def _openssl(self, *arguments: str) -> None:
        command = shutil.which("openssl", path=self.environ.get("PATH", os.defpath))
        if command is None:
            raise errors.EnvironmentUnfit(
                "a real control plane needs certificates, and openssl is not on PATH: install it, or use "
                "--control-plane embedded"
            )
        done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise errors.EnvironmentUnfit(f"`openssl {arguments[0]}` ended with {done.returncode}: {lines[-1]}")


def _extensions(hosts: Sequence[str]) -> str:
    usages = "serverAuth,clientAuth" if hosts else "clientAuth"
    names = ",".join(f"{'IP' if _is_address(host) else 'DNS'}:{host}" for host in hosts)
    return _LEAF_EXTENSIONS.format(usages=usages) + (f"subjectAltName={names}\n" if names else "")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
