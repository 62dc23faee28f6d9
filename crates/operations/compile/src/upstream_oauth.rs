//! Compiles `oauth` of an upstream.

use std::sync::Arc;

use ::policies::oauth::{AccessTokens, TokenClient, TokenSettings};
use config::{Decode as _, Report, Spanned, TokenAuthentication, UpstreamOauth};
use plan::UpstreamAddition;
use plan::upstreams::Timeouts;

use crate::policy_builder::PolicyBuilder;
use crate::upstream_settings;

/// The idle timeout of connections to a token endpoint. Requests to it are rare.
const IDLE: std::time::Duration = std::time::Duration::from_secs(30);

/// Parameters that the operator must not add, because they have their own keys or would change the type of grant.
const OWN_PARAMETERS: [&str; 4] = ["grant_type", "client_id", "client_secret", "scope"];

/// Compiles the access tokens of an upstream. They are taken over from the previous plan if their settings did not change.
pub(crate) fn compile(
    upstream: &str,
    keys: &Spanned<UpstreamOauth>,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<Arc<dyn UpstreamAddition>> {
    let oauth = &keys.value;
    let sound = [
        is_written(&oauth.client_id, "client id", report),
        are_scopes(oauth, report),
        are_parameters(oauth, report),
    ];
    if oauth.client_secret.value.0.is_empty() {
        let help = "write the secret, such as `${file:secret.txt}`";
        report.error(oauth.client_secret.at, "the client secret must not be empty", help);
        return None;
    }
    let timeout = oauth.timeout.0;
    let timeouts = Timeouts {
        connect: timeout,
        response: timeout,
        write: None,
        total: Some(timeout),
        idle: IDLE,
    };
    let url = &oauth.token_url.value;
    let settings = upstream_settings::to_url(&url.target, timeouts, &oauth.tls, report)?;
    if sound.contains(&false) {
        return None;
    }
    let secret = &oauth.client_secret.value.0;
    let key = format!("access tokens {upstream} {} {secret:?} {settings:?}", oauth.encode());
    let fetch = builder.own_fetch(settings);
    let tokens = builder.reuse_or_build(&key, || {
        let scopes: Vec<&str> = oauth.scopes.iter().map(|scope| scope.value.as_str()).collect();
        let scope = (!scopes.is_empty()).then(|| ("scope".to_owned(), scopes.join(" ")));
        let others = oauth.parameters.iter();
        let others = others.map(|(name, value)| (name.value.clone(), value.clone()));
        Arc::new(AccessTokens::new(TokenSettings {
            upstream: upstream.to_owned(),
            fetch,
            path: url.path.clone(),
            client: TokenClient {
                id: oauth.client_id.value.clone(),
                secret: secret.clone(),
                in_body: oauth.authentication == TokenAuthentication::Body,
            },
            parameters: scope.into_iter().chain(others).collect(),
            timeout,
            ahead: oauth.refresh_before,
            lifetime: oauth.lifetime.0,
        }))
    });
    builder.work(tokens.clone());
    Some(tokens)
}

fn is_written(text: &Spanned<String>, what: &str, report: &mut Report) -> bool {
    let is_there = !text.value.is_empty();
    if !is_there {
        report.error(text.at, format!("the {what} must not be empty"), format!("write the {what}"));
    }
    is_there
}

/// Returns true if all scopes are valid (RFC 6749, 3.3): printable, without spaces and quotes.
fn are_scopes(oauth: &UpstreamOauth, report: &mut Report) -> bool {
    let is_scope = |text: &str| {
        let good = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        !text.is_empty() && text.bytes().all(good)
    };
    let mut bad = oauth.scopes.iter().filter(|scope| !is_scope(&scope.value)).peekable();
    let are_good = bad.peek().is_none();
    for scope in bad {
        let what = format!("`{}` is not a scope", scope.value.escape_debug());
        report.error(
            scope.at,
            what,
            "write each scope as an entry of the list, such as `[read, write]`",
        );
    }
    are_good
}

fn are_parameters(oauth: &UpstreamOauth, report: &mut Report) -> bool {
    let names = oauth.parameters.iter().map(|(name, _)| name);
    let mut own = names.filter(|name| OWN_PARAMETERS.contains(&&*name.value)).peekable();
    let are_good = own.peek().is_none();
    for name in own {
        let what = format!("the parameter `{}` cannot be added", name.value);
        let help =
            "write `client_id`, `client_secret` or `scopes`; the grant is `client_credentials`";
        report.error(name.at, what, help);
    }
    are_good
}
