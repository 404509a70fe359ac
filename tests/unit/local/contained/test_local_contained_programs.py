"""What is imported before the fork."""

import subprocess
import sys

SCRIPT = """
import sys
from carico_local.contained import programs
wanted = {"carico_agent.service", "carico_core.runtime.bus.services", "nats.micro"}
print(sorted(wanted - set(sys.modules)))
"""


def test_no_agent_has_to_import_what_it_answers_queries_with() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
