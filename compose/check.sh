#!/bin/bash
# Says whether `docker compose up` will work here, and what to do where it will not: one line each, exit code 2.
# With words it goes on to `docker compose WORDS` where it will: compose/check.sh up -d --wait.
# Settings are those of docker-compose.yml (CARICO_COMPOSE_...).
set -u
declare -i wrong=0

say() {
  echo "compose/check.sh: $*" >&2
  wrong=2
}

older() {  # older GOT LEAST: whether a version is below another
  [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

if ! command -v docker >/dev/null; then
  say "no docker command on PATH: install Docker Engine, or run the same cluster without one by \`carico up\`"
  exit 2
fi
if ! engine="$(docker version --format '{{.Server.Version}}' 2>&1)"; then
  say "no Docker engine answers ($(tail -n 1 <<<"$engine")): start it, or set DOCKER_HOST or the docker context"
  exit 2
fi
if older "$engine" 20.10; then
  say "got Docker engine $engine, expected 20.10 or later: upgrade it"
fi
if ! plugin="$(docker compose version --short 2>/dev/null)" || [ -z "$plugin" ]; then
  say "docker has no \`compose\` command: install the plugin docker-compose-plugin (docker-compose 1.x is not enough)"
  exit 2
elif older "${plugin#v}" 2.20; then
  say "got Docker Compose $plugin, expected 2.20 or later: upgrade docker-compose-plugin"
fi

memory="$(docker info --format '{{.MemTotal}}')"
if [ "${memory:-0}" -lt $((2 << 30)) ]; then
  say "got $((memory >> 20)) MiB of memory, expected 2048: give the engine more, or start fewer nodes (--scale node=2)"
fi

# Ports that are ours already are no obstacle.
cd "$(dirname "$0")/.." || exit 2
if [ -z "$(docker compose ps --quiet 2>/dev/null)" ]; then
  for each in API:6443 NATS:4222 WEBSOCKET:9222; do
    variable="CARICO_COMPOSE_${each%%:*}_PORT"
    port="${!variable:-${each#*:}}"
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      say "port $port of 127.0.0.1 is taken: end what listens there, or set $variable to a free one"
    fi
  done
fi
[ "$wrong" -eq 0 ] || exit "$wrong"
echo "ready: Docker $engine, Compose $plugin, $((memory >> 20)) MiB"
[ "$#" -eq 0 ] || exec docker compose "$@"
