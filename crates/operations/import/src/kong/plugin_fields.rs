//! The table of Kong's plugins: their priorities, whether they guard, and their fields with what becomes of each.

use super::fields::Kind::{Any, List, Map, Number, Switch, Text, Texts, Whole, Word};
use super::fields::{CODE, Field, nearly, only, silent, used};
use super::limit_fields::{RATE_LIMITING, RATE_LIMITING_ADVANCED, RESPONSE_RATELIMITING};
use super::telemetry_fields::{FILE_LOG, HTTP_LOG, OPENTELEMETRY, PROMETHEUS, TCP_LOG, UDP_LOG};

/// The description of a plugin.
#[derive(Debug, Clone, Copy)]
pub(super) struct PluginRow {
    pub(super) name: &'static str,
    /// Plugins with a higher priority run earlier.
    pub(super) priority: i32,
    /// Whether it protects a route: requests must not pass without it.
    pub(super) guards: bool,
    pub(super) support: Support,
}

/// Whether a plugin has a counterpart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Support {
    Fields(&'static [Field]),
    /// The plugin has no counterpart, for this reason.
    Nothing(&'static str),
}

const fn guard(name: &'static str, priority: i32, fields: &'static [Field]) -> PluginRow {
    PluginRow { name, priority, guards: true, support: Support::Fields(fields) }
}

const fn plain(name: &'static str, priority: i32, fields: &'static [Field]) -> PluginRow {
    PluginRow { name, priority, guards: false, support: Support::Fields(fields) }
}

const fn unsupported_guard(name: &'static str, priority: i32, why: &'static str) -> PluginRow {
    PluginRow { name, priority, guards: true, support: Support::Nothing(why) }
}

const fn unsupported(name: &'static str, priority: i32, why: &'static str) -> PluginRow {
    PluginRow { name, priority, guards: false, support: Support::Nothing(why) }
}

/// The row of a plugin, or `None` if it is unknown, such as a custom plugin of a company.
pub(super) fn row(name: &str) -> Option<&'static PluginRow> {
    PLUGINS.iter().find(|row| row.name == name)
}

const METRICS: &str = "Tidegate does not send metrics; Prometheus reads them from `/metrics`";

const PLUGINS: &[PluginRow] = &[
    unsupported_guard("pre-function", 1_000_000, CODE),
    plain("correlation-id", 100_001, CORRELATION_ID),
    unsupported(
        "zipkin",
        100_000,
        "Tidegate has no Zipkin format; `telemetry.traces` sends spans by OTLP",
    ),
    guard("bot-detection", 2_500, BOT_DETECTION),
    plain("cors", 2_000, CORS),
    // A session only spares clients from sending their credential again. It admits no client that never sent one.
    unsupported(
        "session",
        1_900,
        "Tidegate has no sessions: each request must have its credential",
    ),
    unsupported("acme", 1_705, "Tidegate does not obtain certificates by ACME"),
    unsupported_guard("mtls-auth", 1_600, "Tidegate does not look up certificates among consumers"),
    unsupported_guard("degraphql", 1_500, "Tidegate does not translate to GraphQL"),
    guard("jwt", 1_450, JWT),
    unsupported_guard("oauth2", 1_400, "the gateway is not an authorisation server by itself"),
    unsupported_guard("vault-auth", 1_350, "Tidegate has no credentials of a vault"),
    guard("key-auth", 1_250, KEY_AUTH),
    unsupported_guard("ldap-auth", 1_200, "Tidegate has no LDAP"),
    unsupported_guard("ldap-auth-advanced", 1_200, "Tidegate has no LDAP"),
    guard("basic-auth", 1_100, BASIC_AUTH),
    guard("openid-connect", 1_050, OPENID_CONNECT),
    guard("hmac-auth", 1_030, HMAC_AUTH),
    unsupported_guard(
        "json-threat-protection",
        1_009,
        "Tidegate has no limits on the shape of JSON",
    ),
    unsupported_guard("xml-threat-protection", 1_008, "Tidegate has no limits on the shape of XML"),
    guard("request-validator", 999, REQUEST_VALIDATOR),
    unsupported_guard("grpc-gateway", 998, PROTO_FILE),
    guard("ip-restriction", 990, IP_RESTRICTION),
    guard("request-size-limiting", 951, REQUEST_SIZE_LIMITING),
    guard("acl", 950, ACL),
    unsupported_guard("opa", 920, "Tidegate does not ask an OPA server"),
    plain("rate-limiting", 910, RATE_LIMITING),
    plain("rate-limiting-advanced", 910, RATE_LIMITING_ADVANCED),
    plain("response-ratelimiting", 900, RESPONSE_RATELIMITING),
    guard("oas-validation", 840, OAS_VALIDATION),
    unsupported_guard(
        "route-by-header",
        850,
        "Tidegate has no plugin that changes the upstream of a request",
    ),
    unsupported_guard("jq", 811, "Tidegate does not run jq programs"),
    plain("request-transformer-advanced", 802, REQUEST_TRANSFORMER_ADVANCED),
    plain("request-transformer", 801, REQUEST_TRANSFORMER),
    plain("response-transformer-advanced", 800, RESPONSE_TRANSFORMER_ADVANCED),
    plain("response-transformer", 800, RESPONSE_TRANSFORMER),
    plain("redirect", 779, REDIRECT),
    unsupported_guard(
        "route-transformer-advanced",
        780,
        "Tidegate has no plugin that changes the upstream of a request",
    ),
    unsupported("aws-lambda", 750, "Tidegate does not call AWS Lambda functions"),
    unsupported("azure-functions", 749, "Tidegate does not call Azure functions"),
    unsupported("proxy-cache-advanced", 100, "the cache of this plugin is not converted"),
    plain("proxy-cache", 100, PROXY_CACHE),
    guard("soap-xml-request-handling", 75, SOAP_REQUEST),
    guard("soap-xml-response-handling", 70, SOAP_RESPONSE),
    unsupported("forward-proxy", 50, "Tidegate does not reach upstreams through a proxy"),
    plain("canary", 20, CANARY),
    plain("opentelemetry", 14, OPENTELEMETRY),
    plain("prometheus", 13, PROMETHEUS),
    plain("http-log", 12, HTTP_LOG),
    unsupported("statsd", 11, METRICS),
    unsupported("statsd-advanced", 11, METRICS),
    unsupported("datadog", 10, METRICS),
    plain("file-log", 9, FILE_LOG),
    plain("udp-log", 8, UDP_LOG),
    plain("tcp-log", 7, TCP_LOG),
    unsupported(
        "loggly",
        6,
        "Tidegate's syslog messages have no token; set another receiver in `telemetry.access_log`",
    ),
    unsupported("kafka-log", 5, "Tidegate does not send its access log to Kafka"),
    unsupported(
        "syslog",
        4,
        "the plugin names no receiver; name the syslog of this machine in `telemetry.access_log: { to: { syslog: URL } }`",
    ),
    plain("grpc-web", 3, GRPC_WEB),
    // It keeps requests from a service, so without it they must not get there.
    guard("request-termination", 2, REQUEST_TERMINATION),
    plain("mocking", -1, MOCKING),
    unsupported_guard("post-function", -1_000, CODE),
];

const CORRELATION_ID: &[Field] = &[
    used("header_name", Text),
    used("generator", Word(&["uuid", "uuid#counter", "tracker"])),
    used("echo_downstream", Switch),
];

const BOT_DETECTION: &[Field] = &[
    used("allow", Texts),
    used("deny", Texts),
    used("whitelist", Texts),
    used("blacklist", Texts),
];

const CORS: &[Field] = &[
    used("origins", Texts),
    used("methods", Texts),
    used("headers", Texts),
    used("exposed_headers", Texts),
    used("credentials", Switch),
    used("max_age", Number),
    used("preflight_continue", Switch),
    only(
        "private_network",
        Switch,
        "false",
        "Tidegate does not allow requests to private networks",
    ),
    silent("allow_origin_absent", Switch),
];

const JWT: &[Field] = &[
    used("key_claim_name", Text),
    used("claims_to_verify", Texts),
    used("header_names", Texts),
    used("uri_param_names", Texts),
    used("cookie_names", Texts),
    used("maximum_expiration", Number),
    used("secret_is_base64", Switch),
    only(
        "run_on_preflight",
        Switch,
        "true",
        "Tidegate requires a token of preflights that `cors` does not answer",
    ),
    used("anonymous", Text),
    used("realm", Text),
];

const KEY_AUTH: &[Field] = &[
    used("key_names", Texts),
    used("key_in_header", Switch),
    used("key_in_query", Switch),
    used("key_in_body", Switch),
    used("hide_credentials", Switch),
    used("anonymous", Text),
    only(
        "run_on_preflight",
        Switch,
        "true",
        "Tidegate requires a key of preflights that `cors` does not answer",
    ),
    silent("realm", Text),
    only("identity_realms", Any, "", "Tidegate has no keys of other realms"),
];

const BASIC_AUTH: &[Field] = &[
    used("hide_credentials", Switch),
    used("anonymous", Text),
    used("realm", Text),
    only("brute_force_protection", Any, "", "Tidegate does not count failed logins"),
];

const HMAC_AUTH: &[Field] = &[
    used("hide_credentials", Switch),
    used("clock_skew", Number),
    used("anonymous", Text),
    used("validate_request_body", Switch),
    used("enforce_headers", Texts),
    used("algorithms", Texts),
    used("realm", Text),
];

pub(super) const LOGIN: &str = "Tidegate has no logins, sessions and grants";

const OPENID_CONNECT: &[Field] = &[
    used("issuer", Text),
    used("auth_methods", Texts),
    used("audience_required", Texts),
    silent("audience_claim", Texts),
    used("scopes_required", Texts),
    silent("scopes_claim", Texts),
    used("leeway", Number),
    used("hide_credentials", Switch),
    used("anonymous", Text),
    silent("client_id", Texts),
    silent("client_secret", Texts),
    silent("client_auth", Texts),
    silent("scopes", Texts),
    silent("ssl_verify", Switch),
    silent("timeout", Number),
    silent("cache_ttl", Number),
    only("bearer_token_param_type", Texts, "header", "the token must be in `Authorization`"),
    only("verify_signature", Switch, "true", "Tidegate always verifies signatures"),
    only("verify_claims", Switch, "true", "Tidegate always verifies claims"),
    only("consumer_claim", Texts, "", "Tidegate does not look up a consumer by a claim"),
    only("consumer_optional", Switch, "false", "Tidegate does not look up a consumer by a claim"),
    silent("credential_claim", Texts),
    only("roles_required", Texts, "", "write required roles as `claims` of the policy `jwt`"),
    only("groups_required", Texts, "", "write required groups as `claims` of the policy `jwt`"),
    used("upstream_headers_claims", Texts),
    used("upstream_headers_names", Texts),
    only("redirect_uri", Texts, "", LOGIN),
    only("login_action", Text, "", LOGIN),
    only("logout_methods", Texts, "", LOGIN),
    only("session_storage", Text, "", LOGIN),
    only("session_secret", Text, "", LOGIN),
    only("introspection_endpoint", Text, "", "Tidegate verifies tokens by keys with this plugin"),
];

const CANARY: &[Field] = &[
    used("percentage", Number),
    used("upstream_host", Text),
    used("upstream_port", Whole),
    only("upstream_uri", Text, "", "Tidegate sends the same path to both versions"),
    nearly(
        "upstream_fallback",
        Switch,
        "false",
        "a version that is down gets its share nevertheless",
    ),
    used("hash", Word(&["consumer", "ip", "none", "allow", "deny", "header"])),
    used("hash_header", Text),
    used("groups", Texts),
    used("canary_by_header_name", Text),
    used("start", Number),
    used("duration", Number),
    silent("steps", Number),
];

const MOCKING: &[Field] = &[
    used("api_specification", Text),
    only(
        "api_specification_filename",
        Text,
        "",
        "documents of Kong's database are not in the file",
    ),
    used("random_examples", Switch),
    used("included_status_codes", Texts),
    only("random_status_code", Switch, "false", "Tidegate always answers with the lowest status"),
    nearly("random_delay", Switch, "false", "Tidegate adds no delay"),
    silent("max_delay_time", Number),
    silent("min_delay_time", Number),
    only("include_base_path", Switch, "false", "the paths must be those of the document"),
    used("custom_base_path", Text),
];

const IP_RESTRICTION: &[Field] = &[
    used("allow", Texts),
    used("deny", Texts),
    used("whitelist", Texts),
    used("blacklist", Texts),
    used("status", Whole),
    used("message", Text),
];

const REQUEST_SIZE_LIMITING: &[Field] = &[
    used("allowed_payload_size", Whole),
    used("size_unit", Word(&["megabytes", "kilobytes", "bytes"])),
    used("require_content_length", Switch),
];

const ACL: &[Field] = &[
    used("allow", Texts),
    used("deny", Texts),
    used("whitelist", Texts),
    used("blacklist", Texts),
    used("hide_groups_header", Switch),
    only(
        "always_use_authenticated_groups",
        Switch,
        "false",
        "Tidegate has no groups of other plugins",
    ),
    only(
        "include_consumer_groups",
        Switch,
        "false",
        "Tidegate does not take consumer groups as groups of `acl`",
    ),
];

const REQUEST_TRANSFORMER: &[Field] = &[
    used("http_method", Text),
    used("remove.headers", Texts),
    used("remove.querystring", Texts),
    used("remove.body", Texts),
    used("rename.headers", Texts),
    used("rename.querystring", Texts),
    used("rename.body", Texts),
    used("replace.headers", Texts),
    used("replace.querystring", Texts),
    used("replace.body", Texts),
    used("replace.uri", Text),
    used("add.headers", Texts),
    used("add.querystring", Texts),
    used("add.body", Texts),
    used("append.headers", Texts),
    used("append.querystring", Texts),
    used("append.body", Texts),
];

const REQUEST_TRANSFORMER_ADVANCED: &[Field] = &[
    used("http_method", Text),
    used("remove.headers", Texts),
    used("remove.querystring", Texts),
    used("remove.body", Texts),
    used("rename.headers", Texts),
    used("rename.querystring", Texts),
    used("rename.body", Texts),
    used("replace.headers", Texts),
    used("replace.querystring", Texts),
    used("replace.body", Texts),
    used("replace.uri", Text),
    only("replace.json_types", Texts, "", "Tidegate sets only strings in requests"),
    used("add.headers", Texts),
    used("add.querystring", Texts),
    used("add.body", Texts),
    only("add.json_types", Texts, "", "Tidegate sets only strings in requests"),
    used("append.headers", Texts),
    used("append.querystring", Texts),
    used("append.body", Texts),
    only("append.json_types", Texts, "", "Tidegate sets only strings in requests"),
    only("allow.body", Texts, "", "Tidegate does not remove the members that are not in a list"),
    silent("dots_in_keys", Switch),
];

const RESPONSE_TRANSFORMER: &[Field] = &[
    used("remove.headers", Texts),
    used("remove.json", Texts),
    used("rename.headers", Texts),
    used("rename.json", Texts),
    used("replace.headers", Texts),
    used("replace.json", Texts),
    used("replace.json_types", Texts),
    used("add.headers", Texts),
    used("add.json", Texts),
    used("add.json_types", Texts),
    used("append.headers", Texts),
    used("append.json", Texts),
    used("append.json_types", Texts),
];

const RESPONSE_TRANSFORMER_ADVANCED: &[Field] = &[
    used("remove.headers", Texts),
    used("remove.json", Texts),
    used("remove.if_status", Texts),
    used("rename.headers", Texts),
    used("rename.json", Texts),
    used("rename.if_status", Texts),
    used("replace.headers", Texts),
    used("replace.json", Texts),
    used("replace.json_types", Texts),
    only("replace.body", Text, "", "Tidegate does not replace a whole body"),
    used("replace.if_status", Texts),
    used("add.headers", Texts),
    used("add.json", Texts),
    used("add.json_types", Texts),
    used("add.if_status", Texts),
    used("append.headers", Texts),
    used("append.json", Texts),
    used("append.json_types", Texts),
    used("append.if_status", Texts),
    only("allow.json", Texts, "", "Tidegate does not remove the members that are not in a list"),
    only("transform.functions", Texts, "", CODE),
    only("transform.if_status", Texts, "", CODE),
    only("transform.json", Texts, "", CODE),
    silent("dots_in_keys", Switch),
];

const REDIRECT: &[Field] =
    &[used("status_code", Whole), used("location", Text), used("keep_incoming_path", Switch)];

const CACHE_HEADERS: &str = "Tidegate always adds `Age` and `X-Cache-Status`";

const PROXY_CACHE: &[Field] = &[
    only("strategy", Word(&["memory"]), "memory", "Tidegate keeps cached replies in memory only"),
    silent("memory.dictionary_name", Text),
    used("cache_ttl", Whole),
    used("response_code", Texts),
    used("request_method", Texts),
    used("content_type", Texts),
    only("vary_headers", Texts, "", "replies are told apart by the `Vary` of the service alone"),
    used("vary_query_params", Texts),
    used("cache_control", Switch),
    only("ignore_uri_case", Switch, "false", "Tidegate compares paths by case"),
    silent("storage_ttl", Whole),
    nearly("response_headers.age", Switch, "true", CACHE_HEADERS),
    nearly("response_headers.X-Cache-Status", Switch, "true", CACHE_HEADERS),
    used("response_headers.X-Cache-Key", Switch),
];

/// The reason why a plugin that names a definition of Protocol Buffers is refused.
const PROTO_FILE: &str =
    "Tidegate does not read `.proto` files: compile the file with `protoc`, and use `grpc_json`";

const GRPC_WEB: &[Field] = &[
    only("proto", Text, "", PROTO_FILE),
    silent("pass_stripped_path", Switch),
    used("allow_origin_header", Text),
];

const REQUEST_TERMINATION: &[Field] = &[
    used("status_code", Whole),
    used("message", Text),
    used("body", Text),
    used("content_type", Text),
    only("echo", Switch, "false", "Tidegate does not repeat requests in replies"),
    used("trigger", Text),
];

const SOAP_REQUEST: &[Field] = &[
    used("ExternalEntityLoader_Async", Switch),
    used("ExternalEntityLoader_CacheTTL", Whole),
    used("ExternalEntityLoader_Timeout", Whole),
    used("filePathPrefix", Text),
    used("wsdlApiSchemaForceSchemaLocation", Switch),
    used("wsdlApiRecursiveWsdlImport", Switch),
    used("xsdApiSchema", Text),
    used("xsdApiSchemaInclude", Map),
    used("xsdSoapSchema", Text),
    used("xsdSoapSchemaInclude", Map),
    used("xsdSoap12Schema", Text),
    used("xsdSoap12SchemaInclude", Map),
    used("xsltLibrary", Word(&["libxslt", "saxon"])),
    used("xsltTransformBefore", Text),
    used("xsltTransformAfter", Text),
    used("xsltParams", Map),
    used("xsltRemoveEmptyNameSpace", Switch),
    used("RouteXPathRegisterNs", Texts),
    used("RouteXPathTargets", List("a list of targets")),
    used("SOAPAction_Header", Word(&["no", "yes", "yes_null_allowed"])),
    used("VerboseRequest", Switch),
];

const SOAP_RESPONSE: &[Field] = &[
    used("ExternalEntityLoader_Async", Switch),
    used("ExternalEntityLoader_CacheTTL", Whole),
    used("ExternalEntityLoader_Timeout", Whole),
    used("filePathPrefix", Text),
    used("wsdlApiSchemaForceSchemaLocation", Switch),
    used("wsdlApiRecursiveWsdlImport", Switch),
    used("xsdApiSchema", Text),
    used("xsdApiSchemaInclude", Map),
    used("xsdSoapSchema", Text),
    used("xsdSoapSchemaInclude", Map),
    used("xsdSoap12Schema", Text),
    used("xsdSoap12SchemaInclude", Map),
    used("xsltLibrary", Word(&["libxslt", "saxon"])),
    used("xsltTransformBefore", Text),
    used("xsltTransformAfter", Text),
    used("xsltParams", Map),
    used("xsltRemoveEmptyNameSpace", Switch),
    used("ignoreProcessIfServiceHttpError", Switch),
    used("VerboseResponse", Switch),
];

const REQUEST_VALIDATOR: &[Field] = &[
    used("body_schema", Text),
    used("allowed_content_types", Texts),
    silent("content_type_parameter_validation", Switch),
    used("parameter_schema", List("a list of parameters")),
    used("verbose_response", Switch),
    used("version", Text),
];

const PARTS: &str = "Tidegate validates all of a request or nothing";
const NOTIFIES: &str = "Tidegate refuses what does not match the document";

const OAS_VALIDATION: &[Field] = &[
    used("api_spec", Text),
    used("api_spec_encoded", Switch),
    used("verbose_response", Switch),
    used("validate_request_body", Switch),
    only("validate_request_header_params", Switch, "true", PARTS),
    only("validate_request_query_params", Switch, "true", PARTS),
    only("validate_request_uri_params", Switch, "true", PARTS),
    used("validate_response_body", Switch),
    only("notify_only_request_validation_failure", Switch, "false", NOTIFIES),
    only("notify_only_response_body_validation_failure", Switch, "false", NOTIFIES),
    only(
        "query_parameter_check",
        Switch,
        "false",
        "Tidegate allows parameters that are not in the document",
    ),
    only(
        "header_parameter_check",
        Switch,
        "false",
        "Tidegate allows headers that are not in the document",
    ),
    silent("allowed_header_parameters", Text),
    only("include_base_path", Switch, "false", "the paths must be those of the document"),
    only("custom_base_path", Text, "", "the paths must be those of the document"),
    silent("collect_all_errors", Switch),
    silent("api_spec_version", Text),
];
