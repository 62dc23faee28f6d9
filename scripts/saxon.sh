#!/usr/bin/env bash
# Puts into target/saxon what stylesheets of XSLT 2.0 and 3.0 need: Saxon-HE with the resolver it links to, from Maven Central,
# our half of the bridge, and an archive of their classes, so that Java starts in a third of the time. Quick where all is there.
# The program finds the folder beside itself, by TIDEGATE_SAXON, or by `saxon.home`.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# One version each, which the tests have run with.
artifacts="net.sf.saxon:Saxon-HE:12.9 org.xmlresolver:xmlresolver:5.3.3"
folder=$target/saxon
source=crates/xml/saxon/java

stamp=$(cat "$source"/tidegate/saxon/*.java scripts/saxon.sh | sha256sum | cut -d' ' -f1)-$(pwd)
if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

if ! command -v javac >/dev/null 2>&1 || ! command -v mvn >/dev/null 2>&1; then
  scripts/setup.sh java
fi

mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for artifact in $artifacts; do
  name=$(cut -d: -f2,3 --output-delimiter=- <<<"$artifact").jar
  [ -f "$folder/$name" ] && continue
  mvn -q dependency:copy -Dartifact="$artifact" -DoutputDirectory="$work"
  # Classes of a signed jar go into no archive. The registry's client has checked what it fetched.
  mkdir "$work/unpacked"
  (cd "$work/unpacked" && jar --extract --file "../$name" && rm -f META-INF/*.SF META-INF/*.RSA META-INF/MANIFEST.MF)
  jar --create --file "$folder/$name" -C "$work/unpacked" .
  rm -r "$work/unpacked"
done

mkdir "$work/classes"
javac --release 11 -Xlint:all -Werror -cp "$(printf '%s:' "$folder"/*.jar)" -d "$work/classes" "$source"/tidegate/saxon/*.java
jar --create --file "$folder/tidegate-saxon.jar" -C "$work/classes" .

# The class path as the program writes it: whole names, in their order.
home=$(realpath "$folder")
class_path=$(printf '%s\n' "$home"/*.jar | LC_ALL=C sort | paste -sd:)
rm -f "$folder/saxon.jsa"
java -XX:ArchiveClassesAtExit="$home/saxon.jsa" -XX:+UseSerialGC -Xlog:disable -cp "$class_path" tidegate.saxon.Warm
printf '%s\n' "$stamp" >"$folder/stamp"
say "$folder: $(ls "$folder" | paste -sd' ')"
