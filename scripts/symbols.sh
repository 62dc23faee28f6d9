#!/usr/bin/env bash
# Separates a program from its symbols: `symbols.sh PROGRAM FOLDER` writes FOLDER/NAME, which is what is shipped, and FOLDER/NAME.debug
# with its symbols and line numbers. Debuggers, perf and backtraces find the symbols next to the program, or by the program's build id
# below /usr/lib/debug.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=${1:?symbols.sh PROGRAM FOLDER}
folder=${2:?symbols.sh PROGRAM FOLDER}
name=$(basename "$program")
mebibytes() { awk -v bytes="$(stat --format=%s "$1")" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }

mkdir -p "$folder"
objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$folder/$name.debug"
# A debugger compares the name and the checksum in the link with the file of symbols, so that file must not change after this.
objcopy --strip-all --add-gnu-debuglink="$folder/$name.debug" "$program" "$folder/$name"
chmod 755 "$folder/$name"
chmod 644 "$folder/$name.debug"
say "$folder/$name: $(mebibytes "$program") with symbols, $(mebibytes "$folder/$name") without, $(mebibytes "$folder/$name.debug") of symbols"
