"""`python -m carico_auth`."""

import sys

from carico_auth import main

sys.exit(main.main())
