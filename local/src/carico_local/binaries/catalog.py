"""The commands that can be built: the Go package of each, and how its version is set.

The modules next to this file pin every dependency (go.mod) with its content (go.sum); those with a main.go are commands
themselves. Wrapper modules are needed since
`go install` refuses modules with `replace` lines, such as those of Kubernetes and etcd
(https://go.dev/ref/mod#go-install).
"""

import dataclasses
import hashlib
import pathlib
import platform
import re

from carico_core.domain import errors

MODULES = pathlib.Path(__file__).parent / "modules"
# Part of the key of a cached build. `-trimpath` keeps this machine's paths out of the binaries.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A wrapper module: its folder, the requirement with the version of its commands, and variables to set to it."""

    folder: str
    requires: str
    stamps: tuple[str, ...] = ()

    @property
    def directory(self) -> pathlib.Path:
        """The directory of go.mod and go.sum."""
        return MODULES / self.folder

    @property
    def version(self) -> str:
        """The pinned version, without its "v"."""
        text = (self.directory / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^(?:require)?\s*{re.escape(self.requires)} v(\S+)", text, re.MULTILINE)
        assert found is not None, f"{self.folder}/go.mod requires {self.requires}"
        return found[1]

    @property
    def ldflags(self) -> str:
        """The linker's flags: no symbols, and the version in the program's variables."""
        version = self.version
        major, minor, *_ = version.split(".")
        stamps = (stamp.format(version=version, major=major, minor=minor) for stamp in self.stamps)
        return " ".join(("-s -w", *(f"-X {stamp}" for stamp in stamps)))

    @property
    def key(self) -> str:
        """The key of a build: a hash of all its inputs except the version of Go."""
        sources = (self.directory / "go.mod", self.directory / "go.sum", *sorted(self.directory.glob("*.go")))
        pinned = b"".join(each.read_bytes() for each in sources)
        recipe = " ".join((*BUILD_FLAGS, self.ldflags, platform.system(), platform.machine()))
        return hashlib.sha256(pinned + recipe.encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A command. `version_arguments`: with these it prints its version."""

    name: str
    module: Module
    package: str
    version_arguments: tuple[str, ...] = ("--version",)


KUBERNETES = Module(
    folder="kubernetes",
    requires="k8s.io/kubernetes",
    # Otherwise kubectl cannot parse its own version, and clients see a server without one.
    stamps=tuple(
        f"k8s.io/{package}.{field}"
        for package in ("component-base/version", "client-go/pkg/version")
        for field in ("gitVersion=v{version}", "gitMajor={major}", "gitMinor={minor}", "gitTreeState=clean")
    ),
)
# Kubernetes' own scheduling tests, which no package of upstream's builds alone. For `make test-upstream`.
KUBERNETES_E2E = Module(folder="kubernetes-e2e", requires="k8s.io/kubernetes")
ETCD = Module(folder="etcd", requires="go.etcd.io/etcd/server/v3")
KWOK = Module(
    folder="kwok", requires="sigs.k8s.io/kwok", stamps=("sigs.k8s.io/kwok/pkg/consts.Version=v{version}",)
)  # fmt: skip
# DNS inside a cluster of kubelets. It contains its version already.
COREDNS = Module(folder="coredns", requires="github.com/coredns/coredns")
# metrics.k8s.io for kubelets. Its client libraries are of the control plane's version, so their build is shared.
METRICS_SERVER = Module(
    folder="metrics-server", requires="sigs.k8s.io/metrics-server",
    stamps=("k8s.io/component-base/version.gitVersion=v{version}",),
)  # fmt: skip
NATS_CLI = Module(folder="nats-cli", requires="github.com/nats-io/natscli", stamps=("main.version={version}",))
# `docker compose` for systems without a package of it: Debian bookworm has only its version 1.
COMPOSE = Module(
    folder="compose", requires="github.com/docker/compose/v2",
    stamps=("github.com/docker/compose/v2/internal.Version=v{version}",),
)  # fmt: skip
# Renders and installs deploy/helm. Its client libraries are of the control plane's version, so their build is shared.
HELM = Module(
    folder="helm", requires="helm.sh/helm/v4", stamps=("helm.sh/helm/v4/internal/version.version=v{version}",)
)  # fmt: skip

# The Vertical Pod Autoscaler, which applies what CARICO's recommender writes. For `make test-upstream`.
VPA = Module(folder="vpa", requires="k8s.io/autoscaler/vertical-pod-autoscaler")

# Evicts Pods by thresholds of requests, for `carico compare --applications`.
DESCHEDULER = Module(
    folder="descheduler", requires="sigs.k8s.io/descheduler",
    stamps=("sigs.k8s.io/descheduler/pkg/version.version=v{version}",),
)  # fmt: skip

_KUBERNETES_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
TOOLS = {
    tool.name: tool
    for tool in (
        *(Tool(name=name, module=KUBERNETES, package=f"k8s.io/kubernetes/cmd/{name}") for name in _KUBERNETES_COMMANDS),
        Tool(
            name="kubectl", module=KUBERNETES, package="k8s.io/kubernetes/cmd/kubectl",
            version_arguments=("version", "--client"),
        ),
        Tool(name="sched-e2e", module=KUBERNETES_E2E, package="carico.local/kubernetes-e2e"),
        Tool(name="etcd", module=ETCD, package="go.etcd.io/etcd/server/v3"),
        Tool(name="kwok", module=KWOK, package="sigs.k8s.io/kwok/cmd/kwok"),
        Tool(
            name="coredns", module=COREDNS, package="github.com/coredns/coredns", version_arguments=("-version",)
        ),
        Tool(
            name="metrics-server", module=METRICS_SERVER, package="sigs.k8s.io/metrics-server/cmd/metrics-server"
        ),
        Tool(name="helm", module=HELM, package="helm.sh/helm/v4/cmd/helm", version_arguments=("version", "--short")),
        Tool(name="nats", module=NATS_CLI, package="github.com/nats-io/natscli/nats"),
        *(
            Tool(name=name, module=VPA, package=f"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/{name}")
            for name in ("updater", "admission-controller")
        ),
        Tool(
            name="descheduler", module=DESCHEDULER, package="sigs.k8s.io/descheduler/cmd/descheduler",
            version_arguments=("version",),
        ),
        Tool(
            name="docker-compose", module=COMPOSE, package="github.com/docker/compose/v2/cmd",
            version_arguments=("version",),
        ),
    )
}  # fmt: skip


def tool(name: str) -> Tool:
    """Return the command with that name. Raises `SettingsError` that lists the known ones."""
    if name not in TOOLS:
        raise errors.SettingsError(f"tool: got {name!r}, expected one of {', '.join(sorted(TOOLS))}")
    return TOOLS[name]
