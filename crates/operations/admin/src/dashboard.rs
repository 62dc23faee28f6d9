//! The files of the dashboard, which are part of the program.
//!
//! Owns their list. They have no secrets and need no credential: the page asks for a token, keeps it in its tab, and
//! sends it with each request to this API.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// The path of the files.
const FOLDER: &str = "/dashboard/";

/// A file with its name, content type and text.
type DashboardFile = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($name:literal: $kind:expr),* $(,)?) => {
        [$(($name, $kind, include_str!(concat!("../dashboard/", $name)))),*]
    };
}

const FILES: [DashboardFile; 15] = files! {
    "icon.svg": "image/svg+xml",
    "style.css": "text/css; charset=utf-8",
    "api.js": SCRIPT,
    "app.js": SCRIPT,
    "chart.js": SCRIPT,
    "configuration.js": SCRIPT,
    "dom.js": SCRIPT,
    "exchanges.js": SCRIPT,
    "flows.js": SCRIPT,
    "format.js": SCRIPT,
    "gateway.js": SCRIPT,
    "messages.js": SCRIPT,
    "pages.js": SCRIPT,
    "traffic.js": SCRIPT,
    "upstreams.js": SCRIPT,
};

const PAGE: &str = include_str!("../dashboard/index.html");

/// True for the page and its files.
pub(crate) fn is_file(path: &str) -> bool {
    path == "/" || path.strip_prefix(FOLDER).is_some_and(|name| found(name).is_some())
}

fn found(name: &str) -> Option<&'static DashboardFile> {
    FILES.iter().find(|(file, ..)| *file == name)
}

pub(crate) async fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
}

pub(crate) async fn file(Path(name): Path<String>) -> Result<Response, Problem> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "The dashboard has no such file.");
    let (_, kind, text) = found(&name).ok_or_else(missing)?;
    Ok(([(header::CONTENT_TYPE, *kind)], *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_a_file_names_is_there() {
        for (name, _, text) in FILES.iter().chain([&("index.html", "", PAGE)]) {
            let imported = text.split("from './").skip(1);
            let linked = text.split(FOLDER).skip(1);
            for rest in imported.chain(linked) {
                let named = rest.split(['\'', '"']).next().unwrap();
                assert!(found(named).is_some(), "{name} names {named}");
            }
        }
    }

    #[test]
    fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
        for (name, _, text) in FILES.iter().chain([&("index.html", "", PAGE)]) {
            for refused in
                ["style=\"", " onclick", " onload", "innerHTML", "eval(", "<style", "https://"]
            {
                assert!(!text.contains(refused), "{name} has {refused}");
            }
        }
        assert_eq!(PAGE.matches("<script").count(), 1);
    }
}
