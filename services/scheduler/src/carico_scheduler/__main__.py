"""Entry point of `python -m carico_scheduler`."""

import sys

from carico_scheduler import main

if __name__ == "__main__":
    sys.exit(main.main())
