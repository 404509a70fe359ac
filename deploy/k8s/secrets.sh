#!/bin/sh
# Prints the namespace, the identities of the bus and its certificates as a manifest, and creates what is missing.
#
#   deploy/k8s/secrets.sh DIRECTORY | kubectl apply -f -
#
# Keep DIRECTORY safe (not in git, not in the cluster): it has seeds in keys/ and the certificate authority in tls/. A
# second run prints the same. CARICO and KUBECTL name the commands, NAMESPACE the namespace. KIND=callout: for overlays with
# the callout (docs/security.md), whose services need no seeds. WEB=1: for overlays with the live page (docs/web.md).
# RECOMMENDER=1: for those with the recommender (docs/vpa.md), with the certificate of its webhook in webhook/.
# RESCHEDULER=1: for those with the rescheduler (docs/rescheduling.md).
set -eu
directory=${1:?usage: secrets.sh DIRECTORY}
carico=${CARICO:-carico}
kubectl=${KUBECTL:-kubectl}
namespace=${NAMESPACE:-carico}
kind=${KIND:-static}
here=$(cd "$(dirname "$0")" && pwd)
umask 077
mkdir -p "$directory"

# public.env is of the kind that was created last; all of these names are only in one of the kind that is wanted, made by
# this version. Keys stay.
case $kind in
    static) marks="RECOMMENDER AUTH" ;;
    callout) marks="ISSUER" ;;
    *) echo "secrets.sh: got KIND=$kind, expected static or callout" >&2; exit 2 ;;
esac
# The server configuration that bus-config describes is not used here: deploy/k8s has its own, with TLS.
for mark in $marks; do
    grep -qs "^CARICO_NATS_$mark=" "$directory/public.env" || "$carico" bus-config "$kind" --out "$directory" >/dev/null
done
# The last two are for port-forwards.
[ -e "$directory/tls/tls.crt" ] || "$here/../nats/certificates.sh" "$directory/tls" "carico-nats.$namespace.svc" \
    "carico-nats.$namespace.svc.cluster.local" "*.carico-nats-peers.$namespace.svc" localhost 127.0.0.1 >&2

object() {
    echo "---"
    "$kubectl" create "$@" --namespace "$namespace" --dry-run=client --output=yaml
}

sed "s/^  name: carico$/  name: $namespace/" "$here/base/namespace.yaml"
object secret generic carico-nats-public --from-env-file="$directory/public.env"
object secret tls carico-nats-tls --cert="$directory/tls/tls.crt" --key="$directory/tls/tls.key"
if [ -n "${RECOMMENDER:-}" ]; then
    # An authority of its own: the API server trusts it for the webhook.
    [ -e "$directory/webhook/tls.crt" ] || "$here/../nats/certificates.sh" "$directory/webhook" \
        "carico-recommender.$namespace.svc" >&2
    object secret generic carico-recommender-tls --from-file=tls.crt="$directory/webhook/tls.crt" \
        --from-file=tls.key="$directory/webhook/tls.key" --from-file=ca.crt="$directory/webhook/ca.crt"
fi
object configmap carico-nats-ca --from-file=ca.crt="$directory/tls/ca.crt"
if [ "$kind" = callout ]; then
    # The owner's seed stays in DIRECTORY.
    object secret generic carico-nats-auth --from-file=seed="$directory/keys/auth.nk" \
        --from-file=issuer="$directory/keys/issuer.nk" --from-file=xkey="$directory/keys/xkey.nk"
    exit
fi
# The seeds of the services. Those of parts that are not installed, and of people (cli, owner), stay in DIRECTORY.
for role in agent aggregator scheduler auth ${RECOMMENDER:+recommender} ${RESCHEDULER:+rescheduler} ${WEB:+reader}; do
    object secret generic "carico-nats-$role" --from-file=seed="$directory/keys/$role.nk"
done
