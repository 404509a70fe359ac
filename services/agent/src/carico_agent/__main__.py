"""`python -m carico_agent`."""

import sys

from carico_agent import main

if __name__ == "__main__":
    sys.exit(main.main())
