//! Parsers for values of arguments.

use std::path::PathBuf;
use std::time::Duration;

use backends::token::Algorithm;

pub(crate) fn json_object(text: &str) -> Result<String, String> {
    match config::json_text(text) {
        Ok(serde_json::Value::Object(_)) => Ok(text.to_owned()),
        Ok(_) => Err("write a JSON object".to_owned()),
        Err(error) => Err(format!("write a JSON object: {error}")),
    }
}

/// Accepts only characters that need no escaping in a path, since paths are made of names.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.chars().all(is_of_name) && !matches!(text, "." | "..") {
        Ok(text.to_owned())
    } else {
        Err("write letters, digits, `-`, `_` and `.`".to_owned())
    }
}

pub(crate) fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

/// The prefix of paths for routes; `/` for none.
pub(crate) fn path(text: &str) -> Result<String, String> {
    let good = |letter: char| is_of_name(letter) || "~%!$&'()+,;=:@".contains(letter);
    let segment =
        |part: &str| !part.is_empty() && !matches!(part, "." | "..") && part.chars().all(good);
    let below = text.strip_prefix('/').map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    if below.is_some_and(|below| below.is_empty() || below.split('/').all(segment)) {
        Ok(text.to_owned())
    } else {
        Err("write a path such as `/petstore/v1`".to_owned())
    }
}

pub(crate) fn target(text: &str) -> Result<String, String> {
    let read = config::TargetUrl::parse(text).map(|_| text.to_owned());
    read.map_err(|why| format!("{why}; write `http://HOST:PORT` or `https://HOST:PORT`"))
}

pub(crate) fn admin_url(text: &str) -> Result<String, String> {
    let read = config::WebUrl::parse(text);
    read.map(|_| text.to_owned()).map_err(|_| "write it as `http://ADDRESS:PORT`".to_owned())
}

pub(crate) fn web_url(text: &str) -> Result<String, String> {
    let read = config::WebUrl::parse(text).map(|_| text.to_owned());
    read.map_err(|why| format!("{why}; write `http://HOST:PORT/PATH` or `https://HOST/PATH`"))
}

pub(crate) fn mapped(text: &str) -> Result<(String, PathBuf), String> {
    let (location, file) = text.rsplit_once('=').ok_or("write it as LOCATION=FILE")?;
    Ok((location.to_owned(), file.into()))
}

pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(crate) fn algorithm(text: &str) -> Result<Algorithm, String> {
    match text.to_ascii_lowercase().as_str() {
        "es256" => Ok(Algorithm::Es256),
        "rs256" => Ok(Algorithm::Rs256),
        _ => Err("the algorithms are es256 and rs256".to_owned()),
    }
}

pub(crate) fn claim(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as `name=value`")?;
    let value = match serde_json::from_str::<serde_json::Value>(value) {
        Ok(_) => config::json_text(value)?,
        Err(_) => value.into(),
    };
    Ok((name.to_owned(), value))
}

/// Parses a duration with the units of the configuration. Fractions such as `1.5s` are also allowed.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    // Harmless: the digits begin the text.
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let count: f64 = digits.parse().map_err(|_| "write it as `250ms`, `2s` or `5m`".to_owned())?;
    let seconds = match unit {
        "ms" => count / 1000.0,
        "s" => count,
        "m" => count * 60.0,
        "h" => count * 3600.0,
        "d" => count * 86_400.0,
        _ => return Err("the units are ms, s, m, h and d".to_owned()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| "a duration is not negative".to_owned())
}
