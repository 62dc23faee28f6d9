//! Faults in the formats of WSO2 Choreo Connect and WSO2 API Manager, so that their clients need no changes.
//!
//! Choreo Connect has two layouts. Refusals by its enforcer have `error_message`, `code` and `error_description`; errors of its router have
//! `code`, `message` and `description`. Both give the code as text. The API Manager uses the second layout for everything.

use fault::{Fault, Kind};

use json::push_escaped;

/// The product whose format is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Choreo Connect, which has two layouts.
    Connect,
    /// The API Manager.
    Manager,
}

/// Status and body of the reply.
pub(super) fn reply(fault: &Fault, layout: Layout) -> (u16, String) {
    let row = ROWS.iter().find(|row| row.kind == fault.kind);
    let said = fault.more.as_ref().and_then(|more| more.code);
    let chosen = fault.more.as_ref().and_then(|more| more.status);
    let status = match chosen.or(said.and_then(status_of)) {
        Some(status) => status,
        None => row.map_or(fault.kind.status(), |row| row.status),
    };
    let code = said.or(row.map(|row| row.code)).unwrap_or(u32::from(status));
    let text = TEXTS.iter().find(|text| text.first <= code && code <= text.last);
    let own = || {
        let errors = fault.more.as_ref().map(|more| more.errors.join("; "));
        let errors = errors.filter(|errors| !errors.is_empty());
        let detail = || fault.detail.as_deref().unwrap_or(fault.kind.title()).to_owned();
        errors.unwrap_or_else(detail)
    };
    let message = text.map_or(http1::standard_reason(status), |text| text.message);
    // A limit may have a configured text.
    let told = fault.detail.as_deref().filter(|_| fault.kind == Kind::RateLimited);
    let described = told.or(text.and_then(|text| text.description));
    let description = described.map_or_else(own, str::to_owned);
    let of_manager = || {
        members([("code", &code.to_string()), ("message", message), ("description", &description)])
    };
    let body = match code {
        _ if layout == Layout::Manager => of_manager(),
        // The interceptor contract has the members in this order.
        103_500..=103_501 => members([
            ("error_message", message),
            ("error_description", &description),
            ("code", &code.to_string()),
        ]),
        700_700..=799_999 | 900_000..=999_999 => members([
            ("error_message", message),
            ("code", &code.to_string()),
            ("error_description", &description),
        ]),
        _ => of_manager(),
    };
    (status, body)
}

fn members(members: [(&str, &str); 3]) -> String {
    let mut text = String::new();
    for (name, value) in members {
        text.push_str(if text.is_empty() { "{\"" } else { "\",\"" });
        text.push_str(name);
        text.push_str("\":\"");
        push_escaped(&mut text, value);
    }
    text.push_str("\"}");
    text
}

/// The status and the code that WSO2 uses for a kind. A kind without a row keeps its status, which is also its code.
struct Row {
    kind: Kind,
    status: u16,
    code: u32,
}

const fn row(kind: Kind, status: u16, code: u32) -> Row {
    Row { kind, status, code }
}

const ROWS: &[Row] = &[
    row(Kind::Unauthenticated, 401, 900_901),
    row(Kind::CredentialMissing, 401, 900_902),
    row(Kind::CredentialExpired, 401, 900_903),
    row(Kind::SubscriptionMissing, 403, 900_908),
    row(Kind::SubscriptionBlocked, 401, 900_907),
    row(Kind::ScopeMissing, 403, 900_910),
    row(Kind::Forbidden, 403, 900_908),
    row(Kind::Refused, 403, 900_805),
    row(Kind::RateLimited, 429, 900_800),
    row(Kind::InterceptorFailed, 500, 103_500),
    row(Kind::InterceptorInvalid, 500, 103_501),
    row(Kind::PolicyUnavailable, 500, 102_500),
    row(Kind::Internal, 500, 102_500),
    row(Kind::ConnectFailure, 503, 102_503),
    row(Kind::UpstreamTls, 503, 102_503),
    row(Kind::TokenUnavailable, 503, 102_503),
    row(Kind::Unresolved, 503, 102_503),
    // In WSO2, a connect timeout counts as a failed connection; only a late reply is a timeout.
    row(Kind::ConnectTimeout, 503, 102_503),
    row(Kind::UpstreamTimeout, 504, 102_504),
    row(Kind::BreakerOpen, 503, 102_505),
    row(Kind::Busy, 503, 102_505),
    row(Kind::NoTarget, 503, 102_508),
    row(Kind::TargetSuspended, 503, 102_508),
    row(Kind::UpstreamReset, 503, 102_509),
    row(Kind::UpstreamMalformed, 503, 102_510),
    row(Kind::ReplyTooLarge, 503, 102_511),
    row(Kind::ReplyStreams, 503, 102_511),
    row(Kind::PathEscapes, 400, 102_512),
    row(Kind::PathAmbiguous, 400, 102_512),
    row(Kind::UpgradeRequired, 400, 102_512),
];

/// The status that belongs to a code whatever the kind of the fault is, or `None` if the code has no fixed status.
fn status_of(code: u32) -> Option<u16> {
    match code {
        700_700 => Some(503),
        900_805 | 900_905 | 900_908 | 900_910 => Some(403),
        900_800..=900_808 => Some(429),
        900_900..=900_909 => Some(401),
        _ => None,
    }
}

/// The text for a range of codes.
struct Text {
    first: u32,
    last: u32,
    message: &'static str,
    /// The description, or `None` to use the fault's own text.
    description: Option<&'static str>,
}

const fn text(first: u32, last: u32, message: &'static str, description: &'static str) -> Text {
    Text { first, last, message, description: Some(description) }
}

const TEXTS: &[Text] = &[
    text(404, 404, "Not Found", "The requested resource is not available."),
    text(405, 405, "Method Not Allowed", "Method not allowed for given API resource"),
    Text { first: 102_500, last: 102_500, message: "Internal Server Error", description: None },
    text(102_503, 102_503, "Upstream connection failure", "The backend service cannot be reached"),
    text(
        102_504,
        102_504,
        "Upstream request timeout",
        "The backend service did not respond in time",
    ),
    text(102_505, 102_505, "Upstream overflow", "The backend service is at its limit"),
    text(102_508, 102_508, "No healthy upstream", "No backend service is available"),
    text(
        102_509,
        102_511,
        "Upstream connection reset",
        "The connection to the backend service was reset",
    ),
    Text { first: 102_512, last: 102_512, message: "Bad Request", description: None },
    Text { first: 103_500, last: 103_501, message: "Internal Server Error", description: None },
    text(
        700_700,
        700_700,
        "API blocked",
        "This API has been blocked temporarily. Please try again later or contact the system administrators.",
    ),
    text(900_805, 900_805, "Message blocked", "You have been blocked from accessing the resource"),
    text(900_800, 900_808, "Message throttled out", "You have exceeded your quota"),
    text(
        900_900,
        900_900,
        "Unclassified Authentication Failure",
        "Unclassified Authentication Failure",
    ),
    text(
        900_901,
        900_901,
        "Invalid Credentials",
        "Make sure you have provided the correct security credentials",
    ),
    text(
        900_902,
        900_902,
        "Missing Credentials",
        "Make sure your API invocation call has the required security credentials",
    ),
    text(900_903, 900_903, "Access Token Expired", "Renew the access token and try again"),
    text(900_904, 900_904, "Access Token Inactive", "Generate a new access token and try again"),
    text(
        900_905,
        900_905,
        "Incorrect Access Token Type is provided",
        "The access token type used is not supported when invoking the API",
    ),
    text(
        900_907,
        900_907,
        "The requested API is temporarily blocked",
        "The subscription is blocked",
    ),
    text(
        900_908,
        900_908,
        "Resource forbidden",
        "User is NOT authorized to access the Resource. API Subscription validation failed.",
    ),
    text(
        900_909,
        900_909,
        "The subscription to the API is inactive",
        "The subscription is inactive",
    ),
    text(
        900_910,
        900_910,
        "The access token does not allow you to access the requested resource",
        "User is NOT authorized to access the Resource. Scope validation failed.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(fault: &Fault) -> (u16, String) {
        super::reply(fault, Layout::Connect)
    }

    #[test]
    fn every_kind_has_a_body_that_is_json_and_says_its_code() {
        for kind in Kind::ALL {
            let fault = Fault::with_detail(*kind, "10.0.0.1: secret", "a \"b\"\n\u{7f}é");
            let (status, body) = reply(&fault);
            assert!((400..600).contains(&status), "{kind:?}");
            assert!(!body.contains("10.0.0.1"), "{body}");
            assert!(body.starts_with('{') && body.ends_with("\"}"), "{body}");
            assert!(!body.contains('\n') && body.contains("\"code\":\""), "{body}");
        }
    }

    #[test]
    fn the_code_determines_the_layout_and_the_status() {
        let fault = Fault::new(Kind::RateLimited, "").with_code(900_803);
        assert_eq!(
            reply(&fault),
            (429, r#"{"error_message":"Message throttled out","code":"900803","error_description":"You have exceeded your quota"}"#.to_owned())
        );
        let fault = Fault::new(Kind::UpstreamTimeout, "");
        assert_eq!(
            reply(&fault),
            (504, r#"{"code":"102504","message":"Upstream request timeout","description":"The backend service did not respond in time"}"#.to_owned())
        );
        // The code determines the status, whatever the kind of the fault is.
        assert_eq!(reply(&Fault::new(Kind::Forbidden, "").with_code(900_907)).0, 401);
        assert_eq!(reply(&Fault::new(Kind::Refused, "").with_code(900_805)).0, 403);
    }

    #[test]
    fn the_description_lists_the_errors_of_a_message() {
        let fault =
            Fault::new(Kind::RequestInvalid, "").with_errors(vec!["a".into(), "\"b".into()]);
        let body = r#"{"code":"400","message":"Bad Request","description":"a; \"b"}"#;
        assert_eq!(reply(&fault), (400, body.to_owned()));
    }
}
