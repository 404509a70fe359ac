"""`python -m carico_local.contained`."""

import sys

from carico_local.contained import main

if __name__ == "__main__":
    sys.exit(main.main())
