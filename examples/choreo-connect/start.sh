#!/usr/bin/env bash
# Backend, interceptor and gateway, until Ctrl-C.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")"
tidegate=${TIDEGATE:-tidegate}
[ -f keys/token ] || ./keys.sh
"$tidegate" backend echo --port 9000 &
backend=$!
"$tidegate" backend interceptor --port 9001 &
interceptor=$!
trap 'kill $backend $interceptor' EXIT
echo "try: curl -H \"Authorization: Bearer \$(cat keys/token)\" -d hello http://127.0.0.1:9090/echo/1.0.0/intercepted"
"$tidegate" run tidegate.yaml
