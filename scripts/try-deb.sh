#!/usr/bin/env bash
# What becomes of a package: `try-deb.sh PACKAGE` installs it in a folder of its own, starts what its unit starts, upgrades to the
# same under a newer version and with another default configuration, removes and purges. No root, no init, and nothing outside of
# the folder.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

package=$(realpath "${1:?try-deb.sh PACKAGE}")
made=$(mktemp -d)
root=$made/root
serving=
trap 'if [ -n "$serving" ]; then kill "$serving" 2>/dev/null || true; fi; rm -rf "$made"' EXIT

# The package that comes after this one.
dpkg-deb --raw-extract "$package" "$made/newer"
sed -i 's/^Version: .*/&.1/' "$made/newer/DEBIAN/control"
printf '# newer\n' >>"$made/newer/etc/tidegate/tidegate.yaml"
dpkg-deb -Zgzip -z1 --root-owner-group --build "$made/newer" "$made/newer.deb" >/dev/null
newer=$made/newer.deb

mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"

# Maintainer scripts see DPKG_ROOT and leave this machine's services alone. What the package depends on is this machine's.
dpkg_here() {
  dpkg --root="$root" --force-script-chrootless --force-not-root --force-depends --log=/dev/null "$@" </dev/null >"$made/dpkg.log" 2>&1 ||
    fail "dpkg $*: $(cat "$made/dpkg.log")"
}

there() { [ -e "$root/$1" ] || fail "$1 is not installed"; }
gone() { [ ! -e "$root/$1" ] || fail "$1 is left behind"; }

dpkg_here --install "$package"
for file in usr/bin/tidegate usr/lib/systemd/system/tidegate.service etc/tidegate/tidegate.yaml \
  usr/share/man/man1/tidegate.1.gz usr/share/man/man1/tidegate-run.1.gz usr/share/doc/tidegate/copyright \
  usr/share/bash-completion/completions/tidegate usr/share/zsh/vendor-completions/_tidegate \
  usr/share/fish/vendor_completions.d/tidegate.fish; do
  there "$file"
done
# SHIPPED: the program is one for users, who get it without its symbols.
if [ -n "${SHIPPED:-}" ] && readelf --section-headers --wide "$root/usr/bin/tidegate" | grep -q ' \.symtab '; then
  fail "the program in the package has its symbols"
fi
grep -qx /etc/tidegate/tidegate.yaml "$root/var/lib/dpkg/info/tidegate.conffiles" || fail "the configuration is not a conffile"

# An operator's change: free ports, and an answer of its own.
configuration=$root/etc/tidegate/tidegate.yaml
sed -i -e 's/127.0.0.1:[0-9]*/127.0.0.1:0/' -e 's/"hello\\n"/"ours\\n"/' "$configuration"
grep -q ours "$configuration" || fail "the default configuration has no route to change"
edited=$(sha256sum "$configuration")

# The unit's own command, with the folder in front of its paths.
unit() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/tidegate.service"; }
read -r -a start < <(unit ExecStart)
read -r -a check < <(unit ExecReload | head -1)
[ "$(unit Type)" = notify ] || fail "the unit is not told when the program serves"
"$root${check[0]}" "${check[1]}" "$root${check[2]}" >/dev/null

began() {
  "$root${start[0]}" "${start[1]}" "$root${start[2]}" >"$made/out.log" 2>"$made/program.log" &
  serving=$!
  local address=
  for _ in $(seq 600); do
    address=$(sed -n 's/.*listening listener="public" address=\([0-9.:]*\).*/\1/p' "$made/program.log")
    [ -z "$address" ] || break
    kill -0 "$serving" 2>/dev/null || fail "it ended: $(cat "$made/program.log")"
    sleep 0.1
  done
  [ -n "$address" ] || fail "it does not listen: $(cat "$made/program.log")"
  local said
  exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
  printf 'GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' >&3
  said=$(cat <&3)
  exec 3>&-
  case $said in *ours*) ;; *) fail "it answers: $said" ;; esac
}

ended() {
  kill -TERM "$serving"
  wait "$serving" || fail "it ended with $?: $(cat "$made/program.log")"
  serving=
}

began
# As apt does where nobody is asked.
dpkg_here --force-confdef --force-confold --install "$newer"
[ "$(sha256sum "$configuration")" = "$edited" ] || fail "the upgrade changed the configuration"
there etc/tidegate/tidegate.yaml.dpkg-dist
ended
began
ended

dpkg_here --remove tidegate
gone usr/bin/tidegate
gone usr/lib/systemd/system/tidegate.service
[ "$(sha256sum "$configuration")" = "$edited" ] || fail "removing took the configuration along"
mkdir -p "$root/var/log/private/tidegate" "$root/var/lib/private/tidegate"
dpkg_here --purge tidegate
gone etc/tidegate/tidegate.yaml
gone var/log/private/tidegate
gone var/lib/private/tidegate
printf 'installed, served, upgraded with its configuration kept, removed, purged\n'
