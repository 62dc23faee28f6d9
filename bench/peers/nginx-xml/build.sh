#!/usr/bin/env bash
# Builds the module for the nginx of this machine from the headers of its Debian package: build.sh FOLDER
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
into=$1
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r /usr/share/nginx/src "$work/src"
cd "$work/src"
# As the program was configured, without the modules that are files of their own.
mapfile -t options < <(nginx -V 2>&1 | sed -n 's/^configure arguments: //p' | xargs -n1 | grep -vE '^--(with-cc-opt|with-ld-opt|add-dynamic-module|add-module)|=dynamic$')
./configure "${options[@]}" --with-cc-opt='-O2 -fPIC' --add-dynamic-module="$here" > configure.log 2>&1 || { tail -20 configure.log >&2; exit 1; }
make -s -f objs/Makefile modules > make.log 2>&1 || { tail -40 make.log >&2; exit 1; }
mkdir -p "$into"
cp objs/ngx_http_xml_steps_module.so "$into/"
cp "$here/../../../crates/xml/mediation/src/soap/envelope11.xsd" "$into/"
printf 'libxml2 %s, libxslt %s\n' "$(xml2-config --version)" "$(xslt-config --version)" > "$into/versions"
