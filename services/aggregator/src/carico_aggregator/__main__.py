"""`python -m carico_aggregator`."""

import sys

from carico_aggregator import main

sys.exit(main.main())
