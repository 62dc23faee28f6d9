//! A scrape as the text format 0.0.4 of Prometheus, for scrapers that do not ask for OpenMetrics.
//!
//! The two differ in their comments only: here a counter is named with its suffix, an info is a gauge, quotes in a help text are not
//! escaped, and nothing marks the end.

use std::fmt::Write as _;

/// The content type of [`plain_text`].
pub const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of a scrape in OpenMetrics as text of Prometheus.
pub fn plain_text(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    // `HELP` stands before `TYPE`, which says how the family is named.
    let mut help = None;
    for line in openmetrics.lines() {
        let comment =
            line.strip_prefix("# ").map(|rest| rest.split_once(' ').unwrap_or((rest, "")));
        // Writing to a string cannot fail.
        let _infallible = match comment {
            None => writeln!(out, "{line}"),
            Some(("HELP", rest)) => {
                help = rest.split_once(' ').map(|(_, text)| text.replace("\\\"", "\""));
                Ok(())
            }
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    other => ("", other),
                };
                // Harmless: a metric may have no help.
                let help = help.take().unwrap_or_default();
                writeln!(out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}")
            }
            // A unit, and the end.
            Some(_) => Ok(()),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_prometheus_names_them() {
        let openmetrics = "# HELP a_requests All \\\"b\\\".\n# TYPE a_requests counter\na_requests_total{x=\"# TYPE\"} 1\n\
                           # HELP a_build The version.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
                           # HELP a_bytes Bytes.\n# TYPE a_bytes gauge\n# UNIT a_bytes bytes\na_bytes 2\n\
                           # HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_sum 1.0\na_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n";
        let plain = "# HELP a_requests_total All \"b\".\n# TYPE a_requests_total counter\na_requests_total{x=\"# TYPE\"} 1\n\
                     # HELP a_build_info The version.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
                     # HELP a_bytes Bytes.\n# TYPE a_bytes gauge\na_bytes 2\n\
                     # HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_sum 1.0\na_seconds_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(plain_text(openmetrics), plain);
    }
}
