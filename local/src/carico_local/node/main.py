"""`python -m carico_local.node`: one emulated node."""

from collections.abc import Sequence

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_local.node import app
from carico_local.node import settings as node_settings

_PROGRAM = "carico-node"


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of the process."""
    try:
        chosen = settings.load(node_settings.NodeSettings, prefix="NODE", argv=argv, program=_PROGRAM)
    except errors.UserError as error:
        return tasks.report(error, program=_PROGRAM)
    logs.setup(service="node")
    return tasks.run(lambda stop: app.serve(chosen, clocks.SystemClock(), stop), program=_PROGRAM)
