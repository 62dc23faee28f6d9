#!/usr/bin/env bash
# Writes the bill of materials of the program, in CycloneDX's JSON: each crate that is linked, with its version, licence and checksum.
# cargo-cyclonedx is installed where it is missing. The result is target/debian/tidegate_VERSION.cdx.json, beside the package.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if ! cargo cyclonedx --version > /dev/null 2>&1; then
  step "installing cargo-cyclonedx" cargo install cargo-cyclonedx --locked --version '^0.5.9'
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
bill=$target/debian/tidegate_$version.cdx.json
mkdir -p "$target/debian"
# It writes a file beside the manifest of every program of the workspace.
made=sbom-$$
trap 'find crates bench xtask -maxdepth 3 -name "$made*" -delete' EXIT
cargo cyclonedx --quiet --quiet --manifest-path crates/operations/tidegate/Cargo.toml --format json --spec-version 1.5 --override-filename "$made"
# The names of this machine's folders say nothing to others.
sed "s#path+file://$PWD#path+file://#g" "crates/operations/tidegate/$made.json" > "$bill"
for crate in tokio rustls serde; do
  grep -q "\"name\": \"$crate\"" "$bill" || fail "the bill of materials does not have $crate"
done
say "$bill: $(grep -c '"bom-ref": "registry' "$bill") crates of others"
