#!/bin/bash
# Checks whether `docker compose up` will work on this machine. Prints one line for each problem, with what to do, and exits
# with 2. With arguments it then runs `docker compose ARGUMENTS`: compose/check.sh up -d --wait, also with options before
# the command: compose/check.sh --profile web up -d --wait.
# Settings are those of docker-compose.yml (CARICO_COMPOSE_...), from the environment or .env.
set -u
declare -i wrong=0

say() {
  echo "compose/check.sh: $*" >&2
  wrong=2
}

older() {  # older GOT LEAST: whether version GOT is lower than LEAST
  [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

options() {  # options ARGUMENTS: those before the command, one per line
  while [ "$#" -gt 0 ]; do
    case "$1" in
      --*=*) echo "$1" ;;
      --dry-run | --all-resources | --compatibility | --verbose | --no-ansi) echo "$1" ;;
      -*)
        printf '%s\n' "$1" "${2-}"
        shift ;;
      *) return ;;
    esac
    shift
  done
}

# For the port of a container: the variable that changes its published port.
variable_of() {
  case "$1" in
    6443) echo CARICO_COMPOSE_API_PORT ;;
    4222) echo CARICO_COMPOSE_NATS_PORT ;;
    9222) echo CARICO_COMPOSE_WEBSOCKET_PORT ;;
    8080) echo CARICO_COMPOSE_WEB_PORT ;;
    9090) echo CARICO_COMPOSE_PROMETHEUS_PORT ;;
    3000) echo CARICO_COMPOSE_GRAFANA_PORT ;;
    16686) echo CARICO_COMPOSE_TRACES_PORT ;;
    *) echo "its \`ports\`" ;;
  esac
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

# Compose itself reports which ports it would publish, from profiles, .env and environment. If it fails, it reports why in
# the last line of this script. Ports that this project already uses are not a problem.
cd "$(dirname "$0")/.." || exit 2
mapfile -t before < <(options "$@")
ours="$(docker compose ${before[@]+"${before[@]}"} ps --format json 2>/dev/null)"
while read -r target port; do
  [[ "$ours" != *"\"PublishedPort\":$port,"* ]] || continue
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    say "port $port of 127.0.0.1 is in use: stop the program that listens there, or set $(variable_of "$target") to a free one"
  fi
done < <(
  docker compose ${before[@]+"${before[@]}"} config 2>/dev/null |
    awk '$1 == "target:" { target = $2 } $1 == "published:" { gsub(/"/, "", $2); print target, $2 }'
)
[ "$wrong" -eq 0 ] || exit "$wrong"
echo "ready: Docker $engine, Compose $plugin, $((memory >> 20)) MiB"
[ "$#" -gt 0 ] || exit 0
case "$(printf " %s " "$@")" in
  *" up "*" -d "* | *" up "*" --detach "* | *" up "*" --wait "*) ;;
  *) exec docker compose "$@" ;;
esac
docker compose "$@" || exit
of=""
[ "${#before[@]}" -eq 0 ] || of="$(printf ' %s' "${before[@]}")"
cat <<NEXT
next:
  docker compose run --rm submit pi --pods 200
  docker compose run --rm carico top
  docker compose$of down --volumes
NEXT
