"""Entry point of `python -m carico_local.node`."""

import sys

from carico_local.node import app

if __name__ == "__main__":
    sys.exit(app.main())
