"""Entry point of `python -m carico_local.api`."""

import sys

from carico_local.api import main

sys.exit(main.main())
