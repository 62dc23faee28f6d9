#!/usr/bin/env bash
# Makes the container image and tries it: starts it, sends requests, restarts it as a newer image on the same volume, and removes it.
# BUILD is the profile of the program: release, dist (what `make dist` builds) or dev; TIDEGATE names a built program instead. Needs
# root, and Debian's packages podman, runc and mmdebstrap.
#
# The image is the last stage of the Dockerfile. Its base comes from BASE, an image that podman can pull, such as
# gcr.io/distroless/cc-debian12:nonroot. Without BASE it is made of the same packages of Debian. The result is an archive that
# `podman load` and `docker load` read: target/image/tidegate_VERSION.tar.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=${BUILD:-release}
for tool in podman runc; do
  command -v "$tool" > /dev/null || fail "$tool is not installed: apt-get install podman runc mmdebstrap"
done

if [ -z "${TIDEGATE:-}" ]; then
  case $build in
    dist) scripts/dist.sh ;;
    *) step "building ($build)" cargo build --profile "$build" --locked -p tidegate --bin tidegate ;;
  esac
  folder=$target/$build
  [ "$build" != dev ] || folder=$target/debug
  TIDEGATE=$folder/tidegate
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
out=$target/image
mkdir -p "$out"
made=$(mktemp -d)
trial=tidegate-try-$$
finish() {
  podman rm --force --time 0 "$trial" > /dev/null 2>&1 || true
  podman rmi --force "localhost/$trial-base" "localhost/$trial" "localhost/$trial-newer" > /dev/null 2>&1 || true
  rm -rf "$made"
}
trap finish EXIT

# The packages of distroless/cc, with the authorities in one file and a user who is not root.
base_of_debian() {
  command -v mmdebstrap > /dev/null || fail "mmdebstrap is not installed: apt-get install mmdebstrap"
  local root=$made/base
  mmdebstrap --quiet --variant=extract --include=base-files,netbase,tzdata,libc6,libgcc-s1,libstdc++6,ca-certificates bookworm "$root"
  mkdir -p "$root/etc/ssl/certs" "$root/home/nonroot"
  cat "$root"/usr/share/ca-certificates/mozilla/*.crt > "$root/etc/ssl/certs/ca-certificates.crt"
  printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' > "$root/etc/passwd"
  printf 'root:x:0:\nnonroot:x:65532:\n' > "$root/etc/group"
  chown 65532:65532 "$root/home/nonroot"
  rm -rf "$root"/var/lib/apt "$root"/var/cache "$root"/etc/apt
  tar -C "$root" -c . | podman import --quiet - "localhost/$trial-base" > /dev/null
}

# The last stage of the Dockerfile, with the program that was built here instead of its first stage.
image() {
  local base=${BASE:-localhost/$trial-base}
  podman build --quiet --isolation chroot --format docker --build-context "build=$made/program" \
    --build-context "gcr.io/distroless/cc-debian12:nonroot=container-image://$base" --tag "localhost/$trial" . > /dev/null
}

# Starts a container: `start IMAGE`. It may write only to its volume.
start() {
  podman --runtime runc run --detach --name "$trial" --network host --no-healthcheck --read-only \
    --ulimit "nofile=$(ulimit -H -n):$(ulimit -H -n)" --ulimit nproc=4096:4096 \
    --volume "$made/etc:/etc/tidegate:ro" --volume "$made/store:/var/lib/tidegate" "localhost/$1" > /dev/null
  for _ in $(seq 100); do
    podman --runtime runc exec "$trial" /usr/local/bin/tidegate ready > /dev/null 2>&1 && return
    sleep 0.1
  done
  podman logs "$trial" >&2
  fail "the container is not ready after 10 seconds"
}
address() { podman logs "$trial" 2>&1 | sed -n 's/.*listening listener="public" address=\(.*\)/\1/p' | tail -1; }
ask() { curl --silent --show-error --fail --max-time 5 "http://$(address)$1"; }
stop() {
  podman --runtime runc stop --time 40 "$trial" > /dev/null
  [ "$(podman inspect --format '{{.State.ExitCode}}' "$trial")" = 0 ] || fail "the program did not end well: $(podman logs "$trial" 2>&1)"
}

try() {
  # The configuration of the image is only checked: its port may be in use on this machine.
  podman --runtime runc run --rm --network host --no-healthcheck --ulimit "nofile=1024:1024" --ulimit nproc=4096:4096 \
    "localhost/$trial" check /etc/tidegate/tidegate.yaml > /dev/null || fail "the configuration of the image does not pass its check"
  [ "$(podman inspect --format '{{.Config.User}}' "localhost/$trial")" = 65532:65532 ] || fail "the image runs as another user"
  [ -n "$(podman inspect --format '{{.HealthCheck}}' "localhost/$trial")" ] || fail "the image has no health check"

  mkdir -p "$made/etc" "$made/store"
  chown 65532:65532 "$made/store"
  cat > "$made/etc/tidegate.yaml" << 'YAML'
listen: { public: { address: "127.0.0.1:0" } }
admin: { address: "127.0.0.1:9901", history: 0 }
store: { path: /var/lib/tidegate }
hubs: { news: { topics: [all] } }
routes:
  hello: { match: { path: /hello }, respond: { body: "ours\n" } }
  hub: { match: { path: /hub }, hub: news }
YAML
  chmod -R a+rX "$made/etc" "$made"
  start "$trial"
  [ "$(ask /hello)" = ours ] || fail "the mounted configuration is not served"
  [ "$(podman --runtime runc exec "$trial" /usr/local/bin/tidegate --version)" = "tidegate $version" ] || fail "the image has another version"
  ! podman --runtime runc exec "$trial" /bin/sh -c true > /dev/null 2>&1 || fail "the image has a shell"
  # The store on its volume is opened again by the program of the next image.
  [ -n "$(ls -A "$made/store")" ] || fail "the store is not on the volume"
  stop
  podman rm "$trial" > /dev/null
  podman build --quiet --format docker --tag "localhost/$trial-newer" - > /dev/null <<< "FROM localhost/$trial
LABEL newer=yes"
  start "$trial-newer"
  [ "$(ask /hello)" = ours ] || fail "the newer image does not serve"
  stop
}

mkdir -p "$made/program/out"
scripts/symbols.sh "$TIDEGATE" "$made/program/out"
rm -f "$made"/program/out/*.debug
if [ -z "${BASE:-}" ]; then step "a base of Debian's packages" base_of_debian; fi
step "building the image" image
step "trying it" try
archive=$out/tidegate_$version.tar
rm -f "$archive"
podman tag "localhost/$trial" "localhost/tidegate:$version"
podman save --quiet --format docker-archive --output "$archive" "localhost/tidegate:$version"
podman rmi "localhost/tidegate:$version" > /dev/null 2>&1 || true
say "$archive: $(($(stat --format %s "$archive") >> 20)) MiB"
