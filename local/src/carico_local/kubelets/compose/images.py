"""`python -m carico_local.kubelets.compose.images FOLDER`: the images that a node of `docker compose` starts with."""

import pathlib
import shutil
import sys

from carico_core.domain import errors
from carico_core.runtime.process import settings, tasks
from carico_local.kubelets import images


def main() -> int:
    """Return the exit code: 0, or 2 with one line that names what is missing."""
    environ, folder = settings.environment(), pathlib.Path(sys.argv[1])
    try:
        busybox = shutil.which("busybox")
        if busybox is None:
            raise errors.EnvironmentUnfit("no busybox on PATH: install busybox-static")
        shutil.copy2(images.ensure_sandbox(pathlib.Path(busybox), environ), folder / "sandbox.tar")
        shutil.copy2(images.ensure_workloads(environ, report=print), folder / "workloads.tar")
    except errors.UserError as error:
        return tasks.report(error, program="carico-compose-images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
