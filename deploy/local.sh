#!/usr/bin/env bash
# local.sh PROFILE: the same on one machine without containers, until Ctrl-C: the backend, two interceptors and the gateway,
# each within the profile's memory and, where systemd runs for this user, its processors. TIDEGATE names the program, PORT the
# gateway's port (9090), KEYS a folder in which the key, the key set and a token are made.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
tidegate=${TIDEGATE:-tidegate} port=${PORT:-9090}
figures="$here/profiles/${1:?usage: local.sh PROFILE}.env"
# shellcheck source=/dev/null
. "$figures"
folder=$(mktemp -d)
started=()
finish() {
  kill "${started[@]}" 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 143' TERM INT

# memory in MiB, thousandths of a processor, command
if systemd-run --user --scope --quiet true 2> /dev/null; then
  limited() {
    exec systemd-run --user --scope --quiet -p "MemoryMax=$1M" -p "CPUQuota=$(($2 / 10))%" "${@:3}"
  }
else
  echo "systemd does not run for this user: memory is limited, processors are not" >&2
  limited() { exec prlimit --data="$(($1 << 20))" "${@:3}"; }
fi

keys=${KEYS:-$here/keys}
if [ ! -f "$keys/token" ]; then
  mkdir -p "$keys"
  "$tidegate" token --key "$keys/key.pem" --algorithm rs256 --jwks > "$keys/jwks.json"
  "$tidegate" token --key "$keys/key.pem" --issuer https://localhost:9095/testkey --subject bench --expires 30d > "$keys/token"
fi
# name, memory, processors, kind: starts a backend on a free port, which it prints.
backend() {
  (limited "$2" "$3" "$tidegate" backend "$4" --port 0 > "$folder/$1") &
  started+=($!)
  until grep -q http "$folder/$1"; do
    kill -0 $! 2> /dev/null || { echo "$1 does not start" >&2 && exit 1; }
    sleep 0.05
  done
}
at() { sed 's/.*: //' "$folder/$1"; }
backend backend "$BACKEND_MEMORY" "$BACKEND_CPU" echo
backend interceptor-1 "$INTERCEPTOR_MEMORY" "$INTERCEPTOR_CPU" interceptor
backend interceptor-2 "$INTERCEPTOR_MEMORY" "$INTERCEPTOR_CPU" interceptor
export LISTEN=127.0.0.1:$port ADMIN=${ADMIN:-127.0.0.1:9901} WORKERS JWKS=$keys/jwks.json
BACKEND=$(at backend) INTERCEPTOR_1=$(at interceptor-1) INTERCEPTOR_2=$(at interceptor-2)
export BACKEND INTERCEPTOR_1 INTERCEPTOR_2
echo "try: curl -H \"Authorization: Bearer \$(cat $keys/token)\" -d hello http://$LISTEN/echo/1.0.0/intercepted"
(limited "$GATEWAY_MEMORY" "$GATEWAY_CPU" "$tidegate" run "$here/tidegate.yaml") &
started+=($!)
wait $!
