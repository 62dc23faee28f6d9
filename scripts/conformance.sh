#!/usr/bin/env bash
# Runs the packs of foreign tests that are on this machine. PACKS=FOLDER says where they are; arguments go to
# `cargo xtask conformance http1 PACK`.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

archive=$(pack http1) ||
  fail "http1.tar.gz is not on this machine; PACKS=FOLDER make conformance says where packs are"
cargo xtask conformance http1 "$archive" "$@"
