"""Start the rescheduler: `carico-rescheduler`, or `python -m carico_rescheduler`."""

import sys

from carico_rescheduler import main

if __name__ == "__main__":
    sys.exit(main.main())
