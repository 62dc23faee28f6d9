#!/usr/bin/env bash
# Has a program write what packages carry of it: `words.sh PROGRAM FOLDER` makes its manual pages and its completions.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=${1:?words.sh PROGRAM FOLDER}
folder=${2:?words.sh PROGRAM FOLDER}
rm -rf "$folder/man"
mkdir -p "$folder/man"
"$program" manual pages "$folder/man"
"$program" completions bash >"$folder/tidegate.bash"
"$program" completions zsh >"$folder/_tidegate"
"$program" completions fish >"$folder/tidegate.fish"
