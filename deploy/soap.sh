#!/usr/bin/env bash
# soap.sh FOLDER: the configuration that kubernetes-soap.yaml mounts: examples/soap with the cluster's names and a certificate, all
# files in one folder, as a ConfigMap has them.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
folder=${1:?usage: soap.sh FOLDER}
example=$(cd "$(dirname "$0")/../examples/soap" && pwd)
mkdir -p "$folder"
find "$example" -type f ! -path '*/saxon*' ! -name tidegate.yaml -exec cp {} "$folder" \;
sed -e 's|^listen:$|admin: { address: "0.0.0.0:9901", open: true }\nworkers: "${WORKERS}"\nlisten:|' \
  -e 's|^  public: .*|  secure: { address: "0.0.0.0:8443", tls: { certificate: cert.pem, key: key.pem } }|' \
  -e 's|127.0.0.1:9080|calculator:9000|' -e 's|127.0.0.1:9081|calculator2:9000|' -e 's|127.0.0.1:9082|httpbin:9000|' \
  -e 's|calculator/\([a-z-]*\.\)|\1|g' "$example/tidegate.yaml" > "$folder/tidegate.yaml"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=soap-gateway \
  -keyout "$folder/key.pem" -out "$folder/cert.pem" 2> /dev/null
