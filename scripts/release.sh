#!/usr/bin/env bash
# Makes what a release has, in the folder `release`: the package, the container image, the bill of materials, the symbols and the checksums
# of all of them. `release.sh vX.Y.Z` is refused unless the tag is of the version in Cargo.toml. `release.sh vX.Y.Z publish` also attaches
# them to a release on GitHub, by the token in GH_TOKEN. It is what the workflow `release` runs: see RELEASING.md.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tag=${1:?release.sh TAG [publish]}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
[ "$tag" = "v$version" ] || fail "the tag is $tag and the version in Cargo.toml is $version"
released=$(release_tags)
# Tests open the stores of this release and of all before it.
for each in $(printf '%s\n' "$released" "$tag" | sort -uV | sed "/^$tag\$/q"); do
  git cat-file -e "HEAD:tests/releases/${each#v}/postgres.sql" 2>/dev/null ||
    fail "tests/releases/${each#v} is not committed: scripts/release-store.sh writes it for $each"
done
case "${2:-}" in '' | publish) ;; *) fail "\`$2\` is not an argument: release.sh TAG [publish]" ;; esac

# The image is made as root, since its files belong to other users.
image() {
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo --preserve-env=PATH)
  "${as_root[@]}" env CARGO_TARGET_DIR="$target" TIDEGATE="$target/dist/tidegate" BASE=gcr.io/distroless/cc-debian12:nonroot scripts/image.sh
}

scripts/setup.sh
scripts/setup.sh image
BUILD=dist scripts/deb.sh
image
scripts/sbom.sh

rm -rf release
mkdir release
cp "$target"/debian/tidegate_"$version"* "$target/image/tidegate_$version.tar" release
(cd release && sha256sum ./* > SHA256SUMS)
say "release: $(ls release | paste -sd' ')"
[ "${2:-}" != publish ] || gh release create "$tag" release/* --notes-file CHANGELOG.md
