#!/usr/bin/env bash
# render.sh PROFILE FILE: the file with the profile's figures. What the profile does not say, the environment may; a name that
# neither knows is an error.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 2 ] || { echo "usage: render.sh PROFILE FILE, with one of: $(cd "$here/profiles" && echo *.env)" >&2 && exit 2; }
# The environment's figures go before the profile's.
while IFS='=' read -r name value; do
  [[ $name =~ ^[A-Z_0-9]+$ ]] || continue
  [ -n "${!name+x}" ] || declare "$name=$value"
done < "$here/profiles/${1%.env}.env"
text=$(< "$here/$2")
while [[ $text =~ \$\{([A-Z_0-9]+)\} ]]; do
  name=${BASH_REMATCH[1]}
  [ -n "${!name+x}" ] || { echo "$2 names $name, which $1 does not have" >&2 && exit 1; }
  text=${text//"\${$name}"/${!name}}
done
echo "$text"
