"""`python -m carico_web`."""

import sys

from carico_web import main

sys.exit(main.main())
