//! The table of Kong's entities and their fields: what each takes, and what becomes of it here. Plugins have theirs in
//! [`super::plugin_fields`].

use crate::table::Outcome;

use super::tree::{Item, Mistakes, Value};

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Whole,
    Number,
    Switch,
    /// A list of texts.
    Texts,
    /// A list with items of any type, and its description in messages.
    List(&'static str),
    /// A map with any keys.
    Map,
    Word(&'static [&'static str]),
    Any,
}

/// How a field is converted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// The converter reads it.
    Used,
    /// It has no effect on requests.
    Silent,
    /// Only this value, the default, has a counterpart. Any other value has this outcome, with this note.
    Only(&'static str, Outcome, &'static str),
}

/// A field, with dots between the names of maps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    name: &'static str,
    kind: Kind,
    rule: Rule,
}

/// The result for an entity.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict {
    pub(super) outcome: Option<Outcome>,
    pub(super) notes: Vec<String>,
}

use Kind::{Any, List, Map, Number, Switch, Text, Texts, Whole, Word};

/// The note about code in Lua.
pub(super) const CODE: &str = "Tidegate does not run Lua code";

pub(super) const fn used(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, rule: Rule::Used }
}

pub(super) const fn silent(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, rule: Rule::Silent }
}

/// A field for which only the default value is supported.
pub(super) const fn only(
    name: &'static str,
    kind: Kind,
    value: &'static str,
    note: &'static str,
) -> Field {
    Field { name, kind, rule: Rule::Only(value, Outcome::Refused, note) }
}

/// A field for which other values than the default are approximated.
pub(super) const fn nearly(
    name: &'static str,
    kind: Kind,
    value: &'static str,
    note: &'static str,
) -> Field {
    Field { name, kind, rule: Rule::Only(value, Outcome::Approximated, note) }
}

/// The protocols that Kong knows.
pub(super) const PROTOCOLS: &[&str] =
    &["http", "https", "grpc", "grpcs", "tcp", "tls", "udp", "tls_passthrough", "ws", "wss"];

const ENTITIES: Kind = List("a list of entities");

/// The fields of every entity.
const COMMON: &[Field] = &[
    silent("id", Text),
    silent("tags", Texts),
    silent("created_at", Whole),
    silent("updated_at", Whole),
    silent("ws_id", Text),
    silent("_comment", Text),
    silent("_ignore", Any),
];

/// The fields of `_info` in a file.
pub(super) const INFO: &[Field] = &[
    used("select_tags", Texts),
    used("defaults.service", Map),
    used("defaults.route", Map),
    used("defaults.upstream", Map),
    used("defaults.target", Map),
    used("defaults.consumer", Map),
    used("defaults.consumer_group", Map),
    used("defaults.certificate", Map),
    used("defaults.sni", Map),
    used("defaults.ca_certificate", Map),
    used("defaults.vault", Map),
    silent("default_lookup_tags", Any),
    silent("consumer_group_policy_overrides", Switch),
];

pub(super) const SERVICE: &[Field] = &[
    used("name", Text),
    used("url", Text),
    used("protocol", Word(PROTOCOLS)),
    used("host", Text),
    used("port", Whole),
    used("path", Text),
    used("retries", Whole),
    used("connect_timeout", Whole),
    used("read_timeout", Whole),
    used("write_timeout", Whole),
    used("enabled", Switch),
    used("client_certificate", Any),
    used("tls_verify", Switch),
    nearly(
        "tls_verify_depth",
        Whole,
        "1",
        "Tidegate does not limit the depth of certificate chains",
    ),
    used("ca_certificates", Texts),
    silent("tls_sans", Any),
    used("routes", ENTITIES),
    used("plugins", ENTITIES),
];

pub(super) const ROUTE: &[Field] = &[
    used("name", Text),
    used("protocols", Texts),
    used("https_redirect_status_code", Word(&["426", "301", "302", "307", "308"])),
    used("strip_path", Switch),
    used("preserve_host", Switch),
    silent("request_buffering", Switch),
    silent("response_buffering", Switch),
    used("regex_priority", Whole),
    used("path_handling", Word(&["v0", "v1"])),
    used("methods", Texts),
    used("hosts", Texts),
    used("paths", Texts),
    used("headers", Map),
    used("snis", Texts),
    used("sources", List("a list")),
    used("destinations", List("a list")),
    used("expression", Text),
    used("priority", Whole),
    used("service", Any),
    used("plugins", ENTITIES),
];

pub(super) const UPSTREAM: &[Field] = &[
    used("name", Text),
    used(
        "algorithm",
        Word(&[
            "round-robin",
            "least-connections",
            "consistent-hashing",
            "latency",
            "sticky-sessions",
        ]),
    ),
    used("hash_on", Word(HASH_ON)),
    used("hash_fallback", Word(HASH_ON)),
    used("hash_on_header", Text),
    used("hash_fallback_header", Text),
    used("hash_on_cookie", Text),
    silent("hash_on_cookie_path", Text),
    used("hash_on_query_arg", Text),
    used("hash_fallback_query_arg", Text),
    used("hash_on_uri_capture", Text),
    used("hash_fallback_uri_capture", Text),
    used("sticky_sessions_cookie", Text),
    silent("sticky_sessions_cookie_path", Text),
    silent("slots", Whole),
    used("host_header", Text),
    used("client_certificate", Any),
    only(
        "use_srv_name",
        Switch,
        "false",
        "Tidegate does not send the name of an SRV record as the Host",
    ),
    used("targets", ENTITIES),
    used("healthchecks.threshold", Number),
    used("healthchecks.active.type", Word(&["http", "https", "tcp", "grpc", "grpcs"])),
    used("healthchecks.active.http_path", Text),
    used("healthchecks.active.timeout", Number),
    silent("healthchecks.active.concurrency", Whole),
    silent("healthchecks.active.https_verify_certificate", Switch),
    only("healthchecks.active.https_sni", Text, "", "health checks use the name of the target"),
    only(
        "healthchecks.active.headers",
        Map,
        "",
        "Tidegate's health checks have no headers of their own",
    ),
    used("healthchecks.active.healthy.interval", Number),
    used("healthchecks.active.healthy.successes", Whole),
    used("healthchecks.active.healthy.http_statuses", Texts),
    used("healthchecks.active.unhealthy.interval", Number),
    used("healthchecks.active.unhealthy.tcp_failures", Whole),
    used("healthchecks.active.unhealthy.timeouts", Whole),
    used("healthchecks.active.unhealthy.http_failures", Whole),
    used("healthchecks.active.unhealthy.http_statuses", Texts),
    silent("healthchecks.passive.type", Word(&["http", "https", "tcp", "grpc", "grpcs"])),
    used("healthchecks.passive.healthy.successes", Whole),
    used("healthchecks.passive.healthy.http_statuses", Texts),
    used("healthchecks.passive.unhealthy.tcp_failures", Whole),
    used("healthchecks.passive.unhealthy.timeouts", Whole),
    used("healthchecks.passive.unhealthy.http_failures", Whole),
    used("healthchecks.passive.unhealthy.http_statuses", Texts),
];

const HASH_ON: &[&str] =
    &["none", "consumer", "ip", "header", "cookie", "path", "query_arg", "uri_capture"];

pub(super) const TARGET: &[Field] = &[
    used("target", Text),
    used("weight", Whole),
    used("upstream", Any),
    only("failover", Switch, "false", "Tidegate has no failover targets beside weights"),
];

pub(super) const CONSUMER: &[Field] = &[
    used("username", Text),
    used("custom_id", Text),
    used("keyauth_credentials", ENTITIES),
    used("basicauth_credentials", ENTITIES),
    used("jwt_secrets", ENTITIES),
    used("hmacauth_credentials", ENTITIES),
    used("oauth2_credentials", ENTITIES),
    used("mtls_auth_credentials", ENTITIES),
    used("acls", ENTITIES),
    used("groups", Any),
    used("plugins", ENTITIES),
    silent("type", Any),
];

pub(super) const CONSUMER_GROUP: &[Field] =
    &[used("name", Text), used("consumers", Any), used("plugins", ENTITIES)];

pub(super) const CERTIFICATE: &[Field] = &[
    used("cert", Text),
    used("key", Text),
    only("cert_alt", Text, "", "a listener has one certificate for each name"),
    only("key_alt", Text, "", "a listener has one certificate for each name"),
    used("snis", ENTITIES),
    silent("passphrase", Text),
];

pub(super) const SNI: &[Field] = &[used("name", Text), used("certificate", Any)];

pub(super) const CA_CERTIFICATE: &[Field] = &[used("cert", Text), silent("cert_digest", Text)];

pub(super) const VAULT: &[Field] =
    &[used("name", Text), used("prefix", Text), silent("description", Text), used("config", Any)];

pub(super) const KEY_AUTH: &[Field] = &[
    used("key", Text),
    used("consumer", Any),
    only("ttl", Any, "0", "keys do not expire in Tidegate"),
];

pub(super) const BASIC_AUTH: &[Field] =
    &[used("username", Text), used("password", Text), used("consumer", Any)];

pub(super) const JWT_SECRET: &[Field] = &[
    used("key", Text),
    used("secret", Text),
    used("rsa_public_key", Text),
    used(
        "algorithm",
        Word(&[
            "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512",
            "PS256", "PS384", "PS512", "EdDSA",
        ]),
    ),
    used("consumer", Any),
];

pub(super) const HMAC_AUTH: &[Field] =
    &[used("username", Text), used("secret", Text), used("consumer", Any)];

pub(super) const ACL: &[Field] = &[used("group", Text), used("consumer", Any)];

/// A plugin, without its `config`.
pub(super) const PLUGIN: &[Field] = &[
    used("name", Text),
    used("config", Any),
    used("_config", Text),
    used("enabled", Switch),
    used("protocols", Texts),
    used("service", Any),
    used("route", Any),
    used("consumer", Any),
    used("consumer_group", Any),
    silent("instance_name", Text),
    only("ordering", Any, "", "Tidegate runs plugins in the order of their priorities"),
    only("run_on", Text, "first", "`run_on` is of Kong's service mesh"),
    only("condition", Text, "", "Tidegate has no condition of a plugin"),
    only("partials", Any, "", "Tidegate does not read partials"),
];

impl Verdict {
    pub(super) fn add(&mut self, outcome: Outcome, note: impl Into<String>) {
        self.outcome = self.outcome.max(Some(outcome));
        let note = note.into();
        if !note.is_empty() && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a note that does not change the outcome.
    pub(super) fn say(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    pub(super) fn nearly(&mut self, note: impl Into<String>) {
        self.add(Outcome::Approximated, note);
    }

    pub(super) fn refuse(&mut self, note: impl Into<String>) {
        self.add(Outcome::Refused, note);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.outcome == Some(Outcome::Refused)
    }
}

/// Checks each field of an entity. Invalid values are mistakes; fields without a counterpart are recorded in the
/// verdict.
pub(super) fn check(
    entity: &Item,
    table: &[Field],
    mistakes: &mut Mistakes,
    verdict: &mut Verdict,
) {
    if !entity.is_map() {
        mistakes.add(entity.at, "expected an entity, a map of fields");
        return;
    }
    let rows: Vec<&Field> = table.iter().chain(COMMON).collect();
    fields(entity, "", &rows, mistakes, verdict);
}

/// Checks the `config` of a plugin, which has no common fields.
pub(super) fn check_config(
    config: &Item,
    table: &[Field],
    mistakes: &mut Mistakes,
    verdict: &mut Verdict,
) {
    let rows: Vec<&Field> = table.iter().collect();
    fields(config, "", &rows, mistakes, verdict);
}

fn fields(
    map: &Item,
    above: &str,
    rows: &[&Field],
    mistakes: &mut Mistakes,
    verdict: &mut Verdict,
) {
    for (key, item) in map.entries() {
        let name = format!("{above}{key}");
        let below = format!("{name}.");
        match rows.iter().find(|row| row.name == name) {
            Some(row) => field(row, item, mistakes, verdict),
            None if rows.iter().any(|row| row.name.starts_with(&below)) => match &item.value {
                Value::Map(_) => fields(item, &below, rows, mistakes, verdict),
                Value::Null => {}
                Value::Text(_) | Value::List(_) => {
                    mistakes.add(item.at, format!("`{name}` must be a map"));
                }
            },
            None if item.is_null() => {}
            None => verdict.refuse(format!("the field `{name}` is unknown")),
        }
    }
}

fn field(row: &Field, item: &Item, mistakes: &mut Mistakes, verdict: &mut Verdict) {
    if item.is_null() {
        return;
    }
    if let Some(expected) = unfit(row.kind, item) {
        mistakes.add(item.at, format!("`{}` must be {expected}", row.name));
        return;
    }
    if plain(item).contains("{vault://") {
        verdict.refuse(format!("`{}`: Tidegate reads only the vault `env`", row.name));
    }
    if let Rule::Only(value, outcome, note) = row.rule
        && plain(item) != value
    {
        verdict.add(outcome, format!("`{}`: {note}", row.name));
    }
}

/// The expected type of a value, if the value has another one.
fn unfit(kind: Kind, item: &Item) -> Option<String> {
    let scalar = item.scalar();
    let is_name = |text: &str| text.contains('\u{0}');
    let fits = match kind {
        Any => true,
        Text => scalar.is_some(),
        Switch => {
            scalar.is_some_and(|text| matches!(text.to_lowercase().as_str(), "true" | "false"))
        }
        Whole => scalar.is_some_and(|text| text.parse::<u64>().is_ok()),
        Number => {
            scalar.is_some_and(|text| text.parse::<f64>().is_ok_and(|n| n.is_finite() && n >= 0.0))
        }
        Texts => match &item.value {
            Value::List(items) => items.iter().all(|item| item.scalar().is_some()),
            Value::Null | Value::Text(_) | Value::Map(_) => false,
        },
        List(_) => matches!(item.value, Value::List(_)),
        Map => item.is_map(),
        Word(words) => scalar.is_some_and(|text| words.contains(&text) || is_name(text)),
    };
    let expected = match kind {
        Any => "a value".to_owned(),
        Text => "a text".to_owned(),
        Switch => "`true` or `false`".to_owned(),
        Whole => "a whole number".to_owned(),
        Number => "a number".to_owned(),
        Texts => "a list of texts".to_owned(),
        List(what) => what.to_owned(),
        Map => "a map".to_owned(),
        Word(words) => format!("one of {}", words.join(", ")),
    };
    (!fits).then_some(expected)
}

/// A value as one text, for a comparison with a default. Lists are sorted, and every kind of empty value is an empty text.
fn plain(item: &Item) -> String {
    match &item.value {
        Value::Null => String::new(),
        Value::Text(text) => text.trim_end_matches(".0").to_owned(),
        Value::List(items) => {
            let mut texts: Vec<String> = items.iter().map(plain).collect();
            texts.sort();
            texts.join(",")
        }
        Value::Map(entries) if entries.is_empty() => String::new(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, item)| format!("{key}:{}", plain(item)))
            .collect::<Vec<_>>()
            .join(","),
    }
}
