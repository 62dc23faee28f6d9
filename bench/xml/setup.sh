#!/bin/sh
# Installs what the XML benches compare with and count by, where it is missing: headers of libxml2 and libxslt, and valgrind.
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
missing=""
command -v xml2-config >/dev/null 2>&1 || missing="$missing libxml2-dev"
command -v xslt-config >/dev/null 2>&1 || missing="$missing libxslt1-dev"
command -v valgrind >/dev/null 2>&1 || missing="$missing valgrind"
[ -n "$missing" ] || exit 0
echo "installing$missing"
root=""
[ "$(id -u)" = 0 ] || root=sudo
$root apt-get update -qq
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
