"""Entry point of `python -m carico_local.node`."""

import sys

from carico_core.runtime.process import memory_use

if __name__ == "__main__":
    with memory_use.rare_collections():
        from carico_local.node import app

        sys.exit(app.main())
