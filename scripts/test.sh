#!/usr/bin/env bash
# Everything a change must pass, cheapest first; the tests come last. CI runs exactly this.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# CI builds a clone once: what makes a second build quick would only fill its disk.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# rustfmt and clippy come with most Rust installations, but not with the minimal one.
component() {
  cargo "$1" --version >/dev/null 2>&1 && return
  command -v rustup >/dev/null 2>&1 && rustup component add "$2" && return
  say "SKIPPED: cargo $1 is not installed, so $3 is not checked"
  return 1
}

lints() {
  cargo clippy --workspace --all-targets --locked -- --deny warnings
}

# Links between crates and to items that are gone. The reader is a maintainer, so private items count.
documentation() {
  RUSTDOCFLAGS="--deny warnings --allow rustdoc::private_intra_doc_links" \
    cargo doc --quiet --workspace --no-deps --document-private-items --locked
}

fuzz_targets() {
  # What they are linked with is C++, which takes longer than all of them and is not looked at.
  CUSTOM_LIBFUZZER_PATH=./none cargo check --manifest-path fuzz/Cargo.toml --target-dir "$target/fuzz" --locked
}

# One suite of foreign tests; what follows the name goes to the runner.
suite() {
  local archive
  if archive=$(pack "$1"); then
    cargo xtask conformance "$1" "$archive" "${@:2}"
  elif [ -n "${CI:-}" ] && [ -d "$(packs)" ]; then
    fail "$(packs) has no $1.tar.gz"
  else
    say "SKIPPED: $1.tar.gz is not on this machine; TIDEGATE_PACKS=FOLDER says where packs are"
  fi
}

conformance() {
  suite http1
  suite xml
  suite xslt10
  suite xsd
  suite wsdl
  suite jose
}

# Failed tests are not run again, with one exception. Tests start hundreds of programs whose time limits end within a second, and a machine
# that is shared may stand still for longer. So a process that does nothing but wake up writes down by how many milliseconds it woke up too
# late, if that is more than any load on a running machine explains.
LATE_MS=300
stalls() {
  local before now late
  before=${EPOCHREALTIME//[!0-9]/}
  # A background job does not get the SIGINT of a terminal, so it looks whether the script is still there.
  while kill -0 $$ 2> /dev/null && sleep 0.1; do
    now=${EPOCHREALTIME//[!0-9]/}
    late=$(((now - before) / 1000 - 100))
    [ "$late" -lt "$LATE_MS" ] || echo "$late"
    before=$now
  done
}

# If the machine stood still during the tests, runs the failed ones again, alone, if they are at most six. What fails there too is an error.
after_stalls() {
  local output=$1 stalled=$2 failed targets
  [ -s "$stalled" ] || return 1
  say "the machine stood still during the tests, for milliseconds: $(xargs < "$stalled")"
  mapfile -t failed < <(
    awk '/^failures:$/ { listed = 1; count = 0 }
      /^test result:/ { if (listed) for (at = 0; at < count; at++) print names[at]; listed = 0 }
      listed && /^    [a-z0-9_]+(::[a-z0-9_]+)*$/ { names[count++] = $1 }' "$output"
  )
  [ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le 6 ] || return 1
  # Anything else that failed, such as a test of the documentation or a program of tests that crashed, is not among the names.
  [ "$(awk '/^test result: FAILED/ { sum += $6 } END { print sum + 0 }' "$output")" = "${#failed[@]}" ] || return 1
  targets=$(grep -c '^    `-p ' "$output")
  [ "$(grep -c '^test result: FAILED' "$output")" = "$targets" ] || return 1
  say "again, alone: ${failed[*]}"
  cargo test --workspace --locked --lib --bins --tests -- --test-threads=1 --exact "${failed[@]}"
}

tests() {
  local output stalled watch result=0
  output=$(mktemp)
  stalled=$(mktemp)
  if ! scripts/jsonpath.sh; then
    [ -z "${CI:-}" ] || fail "the compliance suite of JSONPath is not here"
    say "SKIPPED: the compliance suite of JSONPath is not here"
  fi
  stalls > "$stalled" &
  watch=$!
  cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$output" || after_stalls "$output" "$stalled" || result=1
  kill "$watch"
  rm "$output" "$stalled"
  return "$result"
}

# The program was built for the tests; what is tried is the package around it.
package() {
  if cargo deb --version >/dev/null 2>&1; then
    BUILD=dev scripts/deb.sh
  else
    say "SKIPPED: cargo-deb is not installed, so no package is tried; \`make deb\` installs it"
  fi
}

say "Cargo.lock fits the manifests"
cargo metadata --locked --format-version 1 >/dev/null
if component fmt rustfmt "the format"; then step "format" cargo fmt --all --check; fi
step "tidy" cargo xtask tidy
if component clippy clippy "no lint"; then step "lints" lints; fi
step "documentation" documentation
step "dependencies" scripts/deny.sh
step "extensions compile" cargo xtask extensions
step "fuzz targets compile" fuzz_targets
step "schema is the program's" scripts/schema.sh check
step "conformance" conformance
step "h2spec" scripts/h2spec.sh
say "tests"
tests
step "package" package
