#!/bin/sh
# compose/rotate.sh NAME: replaces a key of the bus while everything runs. NAME: aggregator, scheduler, rescheduler, auth,
# reader, cli, owner, or agent-node-3. Who has the old key is disconnected, reads the new one, and comes back within
# seconds; from then on the old one is refused.
set -eu
if [ $# -ne 1 ] || [ -z "$1" ]; then
  echo "usage: compose/rotate.sh NAME, such as scheduler or agent-node-3" >&2
  exit 2
fi
cd "$(dirname "$0")/.."

keys() { docker compose run --rm --no-deps keys "$@"; }
reload() { docker compose exec -T nats-server nats-server --signal reload=1; }

# Of an earlier run that was interrupted, if there is one.
keys --retire "$1" 2> /dev/null || true
keys --rotate "$1"
# Both are accepted until the second one.
reload
keys --retire "$1"
reload
