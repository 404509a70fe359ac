"""The image of a node: built once from what the machine has, and kept in the engine under a name of its content."""

import dataclasses
import hashlib
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Mapping

from carico_local.binaries import tools
from carico_local.kubelets import engine as engines

FOLDER = pathlib.Path(__file__).parent / "image"
# What the image takes beside Debian's packages.
BINARIES = ("kubelet", "kube-proxy", "coredns")
DEFAULT_BASE = "debian:bookworm-slim"
NAME = "carico-node"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What goes into the image. `base`: a Debian; `network`: whether the build may fetch packages for it."""

    binaries: Mapping[str, tools.Found]
    base: str = DEFAULT_BASE
    network: bool = True

    @property
    def tag(self) -> str:
        """The image's name."""
        known = hashlib.sha256(self.base.encode())
        for path in sorted(FOLDER.iterdir()):
            known.update(path.read_bytes())
        for name in BINARIES:
            found = self.binaries[name]
            # Whole binaries would take a second to read at each start; a build of one version has one size.
            known.update(f"{name} {found.version} {found.path.stat().st_size}".encode())
        return f"{NAME}:{known.hexdigest()[:16]}"


def ensure(engine: engines.Engine, recipe: Recipe, *, tell: Callable[[str], None]) -> str:
    """The tag of the image, built where the engine has none. Raises `EnvironmentUnfit`."""
    tag = recipe.tag
    if engine.has_image(tag):
        return tag
    tell(f"building the nodes' image {tag} on {recipe.base} (once)")
    with tempfile.TemporaryDirectory(prefix="carico-node-") as made:
        context = pathlib.Path(made)
        shutil.copytree(FOLDER, context, dirs_exist_ok=True)
        for name in BINARIES:
            shutil.copy2(recipe.binaries[name].path, context / name)
        arguments = ["--tag", tag, "--build-arg", f"BASE={recipe.base}", "--label", f"{NAME}=1"]
        engine.build(*arguments, *([] if recipe.network else ["--network", "none"]), str(context))
    return tag
