"""Entry point of `python -m carico_local.node`."""

import sys

from carico_local.node import main

if __name__ == "__main__":
    sys.exit(main.main())
