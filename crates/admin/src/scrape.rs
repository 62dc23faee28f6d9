//! The format of the metrics that a scraper asks for.

use axum::http::{HeaderMap, header};

/// True if `Accept` prefers OpenMetrics to the text format. A range such as `*/*` stands for the text format alone.
pub(crate) fn wants_openmetrics(headers: &HeaderMap) -> bool {
    // Harmless: a line that is not text names no format that is known here.
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let (mut openmetrics, mut text) = (0, None);
    for range in lines.flat_map(|line| line.split(',')) {
        let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
        let weight = weight(parameters);
        match name.trim().to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => openmetrics = openmetrics.max(weight),
            "text/plain" => text = text.max(Some(weight)),
            // Harmless: other formats are not offered.
            _ => {}
        }
    }
    // Harmless: without the text format it is wanted less.
    openmetrics > 0 && openmetrics >= text.unwrap_or_default()
}

/// The `q` of a range in thousandths (RFC 9110, 12.4.2); one that cannot be read counts as absent.
fn weight(parameters: &str) -> u32 {
    // Harmless: a parameter without a value is not a weight.
    let mut pairs = parameters.split(';').filter_map(|pair| pair.split_once('='));
    let q = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    // Harmless: a weight that cannot be read counts as absent, as the comment above says.
    let q = q.and_then(|(_, value)| value.trim().parse::<f32>().ok());
    let q = q.filter(|q| (0.0..=1.0).contains(q)).unwrap_or(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    let thousandths = (q * 1000.0).round() as u32;
    thousandths
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn openmetrics_is_for_who_asks_for_it() {
        for (accept, wanted) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("text/html, */*;q=0.1", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.9", false),
            ("application/openmetrics-text; Q=0", false),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", false),
        ] {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.append(header::ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(wants_openmetrics(&headers), wanted, "{accept}");
        }
    }
}
