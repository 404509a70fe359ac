"""`python -m carico_local.fleet`."""

import sys

from carico_local.fleet import main

if __name__ == "__main__":
    sys.exit(main.main())
