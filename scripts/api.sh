#!/usr/bin/env bash
# schemathesis against the admin API and the catalog of a gateway with one of everything: no server error, no answer that the OpenAPI
# document does not describe, no refusal of what it allows, no acceptance of what it forbids. APIS=catalog asks that alone. ARGS go to
# schemathesis.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages="schemathesis==4.32.5"
if [ "$(cat "$target/api/installed" 2>/dev/null)" != "$packages" ]; then
  say "installing schemathesis"
  python3 -m venv --clear "$target/api"
  "$target/api/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$packages"
  printf '%s\n' "$packages" >"$target/api/installed"
fi
program=${TIDEGATE_PROGRAM:-$target/debug/tidegate}
[ -x "$program" ] || cargo build --package tidegate --bin tidegate
program=$(realpath "$program")
schemathesis=$(cd "$target/api/bin" && pwd)/schemathesis

folder=$(mktemp -d)
cleanup() {
  [ -z "${gateway:-}" ] || { kill "$gateway" 2>/dev/null && wait "$gateway" 2>/dev/null; } || true
  rm -rf "$folder"
}
trap cleanup EXIT
root=$PWD
cp scripts/api/tidegate.yaml "$folder/"
# It leaves what it found where it runs.
cd "$folder"
TIDEGATE_LOG=info "$program" run tidegate.yaml 2>log &
gateway=$!
address() {
  for _ in $(seq 100); do
    found=$(sed -n "s/.* $1 address=\([0-9.:]*\).*/\1/p" log | head -1)
    [ -z "$found" ] || { printf '%s' "$found"; return; }
    sleep 0.1
  done
  cat log >&2
  fail "the gateway did not start"
}
admin=$(address "admin API")
catalog=$(address catalog)

# against NAME ADDRESS AUTHORIZATION [ARGS]
against() {
  say "$1"
  SCHEMATHESIS_HOOKS=$root/scripts/api/$1.py "$schemathesis" --config-file "$root/scripts/api/$1.toml" run \
    "http://$2/openapi.json" --url "http://$2" --header "Authorization: $3" \
    --phases examples,coverage,fuzzing --max-examples "${EXAMPLES:-40}" "${@:4}"
}

rest() {
  curl --silent --show-error --fail-with-body --header "Authorization: $token" --header 'Content-Type: application/json' \
    --request "$1" "http://$catalog/api/am/$2" --data "${3:-}"
}

# Creates an object of each kind, whose ids catalog.py puts into requests.
fill() {
  basic=$(printf 'admin:secret-of-admin' | base64)
  read -r key secret < <(curl --silent --fail-with-body --header "Authorization: Basic $basic" --header 'Content-Type: application/json' \
    "http://$catalog/client-registration/v0.17/register" --data '{"clientName":"api","saasApp":true}' | member clientId clientSecret)
  scopes="apim:admin apim:api_create apim:api_publish apim:api_view apim:subscribe apim:app_manage apim:sub_manage apim:api_key \
apim:subscription_block apim:subscription_view apim:tier_view apim:tier_manage"
  token="Bearer $(curl --silent --fail-with-body --user "$key:$secret" "http://$catalog/oauth2/token" --data-urlencode "scope=$scopes" \
    --data 'grant_type=password&username=admin&password=secret-of-admin' | member access_token)"
  export API APPLICATION SUBSCRIPTION REVISION KEYS PLAN
  API=$(rest POST publisher/v4/apis '{"name":"echo","context":"/echo","version":"1","policies":["Gold"],
    "endpointConfig":{"production_endpoints":{"url":"http://127.0.0.1:1"}}}' | member id)
  REVISION=$(rest POST "publisher/v4/apis/$API/revisions" '{}' | member id)
  rest POST "publisher/v4/apis/$API/deploy-revision?revisionId=$REVISION" '[]' >/dev/null
  rest POST "publisher/v4/apis/change-lifecycle?action=Publish&apiId=$API" >/dev/null
  APPLICATION=$(rest POST devportal/v3/applications '{"name":"first"}' | member applicationId)
  KEYS=$(rest POST "devportal/v3/applications/$APPLICATION/generate-keys" '{"keyType":"PRODUCTION"}' | member keyMappingId)
  SUBSCRIPTION=$(rest POST devportal/v3/subscriptions \
    "{\"apiId\":\"$API\",\"applicationId\":\"$APPLICATION\",\"throttlingPolicy\":\"Gold\"}" | member subscriptionId)
  PLAN=$(rest POST admin/v4/throttling/policies/subscription '{"policyName":"Own","defaultLimit":{"type":"REQUESTCOUNTLIMIT",
    "requestCount":{"timeUnit":"min","unitTime":1,"requestCount":5}}}' | member policyId)
}

member() {
  python3 -c 'import json, sys; told = json.load(sys.stdin); print(*(told[name] for name in sys.argv[1:]))' "$@"
}

asked=${APIS:-admin catalog}
case " $asked " in *" admin "*) against admin "$admin" "Bearer writer-token" "$@" ;; esac
case " $asked " in
  *" catalog "*)
    fill
    # Registration needs a password, and after too many wrong ones it is refused for some time: hence few examples. Everything else
    # needs a token.
    registration='^/client-registration/'
    EXAMPLES=5 against catalog "$catalog" "Basic $basic" --include-path-regex "$registration" "$@"
    against catalog "$catalog" "$token" --exclude-path-regex "$registration" "$@"
    ;;
esac
