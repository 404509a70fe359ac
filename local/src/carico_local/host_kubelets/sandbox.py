"""The image of Pods' sandboxes, and of jobs that need but a shell: this machine's busybox, as nodes know it."""

import pathlib
from collections.abc import Mapping

from carico_core.domain import errors
from carico_local.binaries import cache
from carico_local.kubelets import configuration, image_archive, shared_libraries

_NAMES = ("sh", "sleep", "cat", "echo", "wget", "nslookup", "dd")


def ensure(busybox: pathlib.Path, environ: Mapping[str, str]) -> pathlib.Path:
    """The archive of the image, made where the user's cache has none. Raises `EnvironmentUnfit`."""
    image = image_archive.Image(
        tag=configuration.SANDBOX_IMAGE,
        # A static one names no library; any other brings its own.
        files={"/bin/busybox": busybox, **shared_libraries.of([busybox])},
        links={f"/bin/{name}": "busybox" for name in _NAMES},
        environ={"PATH": "/bin"},
        command=("/bin/busybox", "sleep", "2147483647"),
    )
    target = cache.directory(environ) / f"sandbox-{image.key}.tar"
    with cache.locked(target, lambda: None):
        if not target.exists():
            try:
                image_archive.write(image, target)
            except OSError as error:
                raise errors.EnvironmentUnfit(f"no image of Pods' sandboxes: {error}") from error
    return target
