"""Entry point of `python -m carico_local.api`."""

import sys

from carico_core.runtime.process import memory_use

if __name__ == "__main__":
    with memory_use.rare_collections():
        from carico_local.api import main

        sys.exit(main.main())
