#!/bin/sh
# Creates a certificate authority and a server certificate for NATS with openssl, for clusters without cert-manager.
#
#   deploy/nats/certificates.sh DIRECTORY NAME...     NAME: a DNS name or an IP address that clients connect to
#   DAYS=365 deploy/nats/certificates.sh DIRECTORY carico-nats.carico.svc '*.carico-nats.carico.svc'
#
# Writes ca.crt, ca.key, tls.crt and tls.key. An existing authority is used again, so a second run only renews the
# server's certificate. Keep ca.key out of the cluster.
set -eu
umask 077
directory=${1:?usage: certificates.sh DIRECTORY NAME...}
shift
[ $# -gt 0 ] || { echo "certificates.sh: got no name, expected the names by which clients reach the server" >&2; exit 2; }
days=${DAYS:-365}
mkdir -p "$directory"
cd "$directory"

names=
for name in "$@"; do
  case $name in
    *:*) kind=IP ;;
    *[!0-9.]*) kind=DNS ;;
    *) kind=IP ;;
  esac
  names="$names${names:+,}$kind:$name"
done

curve="-pkeyopt ec_paramgen_curve:P-256"
if [ ! -e ca.key ]; then
  openssl genpkey -quiet -algorithm EC $curve -out ca.key 2>/dev/null || openssl genpkey -algorithm EC $curve -out ca.key
  openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj "/CN=CARICO NATS authority" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -out ca.crt
fi
openssl genpkey -algorithm EC $curve -out tls.key
openssl req -new -key tls.key -subj "/CN=carico-nats" -out tls.csr
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\nkeyUsage=critical,digitalSignature\n' "$names" > tls.ext
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days "$days" -extfile tls.ext \
  -out tls.crt 2>/dev/null
rm -f tls.csr tls.ext ca.srl
