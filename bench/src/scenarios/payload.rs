//! Bodies of the size of a row, each different from the previous one.

use std::collections::BTreeMap;

use crate::generator::{Part, Text};

use super::file::Payload;

/// Number of digits of the unique number in `{"size":"1024B","payload":[..]}`, which is the first of its two strings.
const NUMBER_DIGITS: usize = 12;

/// The sizes of the reference's SOAP files: by their names, and the actual ones.
const SOAP_SIZES: &[(u64, u64)] = &[
    (500, 499),
    (1_000, 981),
    (10_000, 9_997),
    (100_000, 99_966),
    (200_000, 199_926),
    (500_000, 499_997),
    (1_000_000, 999_998),
];

/// Returns the body of a row of this size.
///
/// # Errors
///
/// If the size is too small for this kind of body.
pub(super) fn body(payload: Payload, size: u64) -> Result<Text, String> {
    match payload {
        Payload::Json => json(size),
        Payload::Soap => soap(actual(size)),
        Payload::JsonOrder => json_order(size.saturating_sub(4)),
        Payload::Filled => filled(size),
        Payload::SoapVaried => Ok(soap_varied(size)),
    }
}

/// Returns the actual size of the reference's file with this name.
fn actual(size: u64) -> u64 {
    SOAP_SIZES.iter().find(|(named, _)| *named == size).map_or(size, |(_, actual)| *actual)
}

fn json(size: u64) -> Result<Text, String> {
    let head = format!("{{\"size\":\"{size}B\",\"payload\":[\"");
    padded(
        size,
        vec![Part::Same(head), Part::Number(NUMBER_DIGITS), Part::Same("\",\"".to_owned())],
        "\"]}",
    )
}

/// Like `json`, but with letters that do not vary.
fn filled(size: u64) -> Result<Text, String> {
    let mut text = json(size)?;
    for part in &mut text.parts {
        if let Part::Random(bytes) = part {
            *part = Part::Same("x".repeat(*bytes));
        }
    }
    Ok(text)
}

/// Returns a message with orders until the size is reached. Prefixes contain the number of the request, and each order begins at another
/// offset than in the previous message.
fn soap_varied(size: u64) -> Text {
    const DIGITS: usize = 6;
    const TAIL: [&str; 4] = ["</m", ":buyStocks></s", ":Body></s", ":Envelope>"];
    const SYMBOLS: [&str; 5] = ["IBM", "MSFT", "SUN", "ORCL", "GOOG"];
    let mut parts = Vec::new();
    let mut left = usize::try_from(size).unwrap_or(usize::MAX);
    let mut add = |part: Part| {
        let bytes = if let Part::Spaces(most) = part { most / 2 } else { bytes(&part) };
        left = left.saturating_sub(bytes);
        parts.push(part);
        left
    };
    let same = |text: &str| Part::Same(text.to_owned());
    for text in [
        "<s",
        ":Envelope xmlns:s",
        "=\"http://schemas.xmlsoap.org/soap/envelope/\"><s",
        ":Body><m",
        ":buyStocks xmlns:m",
    ] {
        add(same(text));
        add(Part::Number(DIGITS));
    }
    add(same("=\"http://services.samples/xsd\">"));
    for (nth, symbol) in SYMBOLS.iter().cycle().enumerate() {
        add(same("<order>"));
        add(Part::Spaces(3));
        add(same(&format!("<symbol>{symbol}</symbol>")));
        add(Part::Spaces(3));
        add(same("<buyerID>b"));
        add(Part::Number(5));
        let (price, volume) = (nth * 37 % 999 + 1, nth * 7919 % 99_999 + 1);
        let left = add(same(&format!(
            "</buyerID><price>{price}.50</price><volume>{volume}</volume></order>"
        )));
        if left <= TAIL.concat().len() + DIGITS * (TAIL.len() - 1) {
            break;
        }
    }
    let [first, second, third, last] = TAIL;
    for text in [first, second, third] {
        add(same(text));
        add(Part::Number(DIGITS));
    }
    add(same(last));
    Text { parts }
}

/// Returns the length of a part, or 0 if it varies.
fn bytes(part: &Part) -> usize {
    part.bytes(&BTreeMap::new()).unwrap_or(0)
}

fn json_order(size: u64) -> Result<Text, String> {
    let parts = vec![
        Part::Same("{\"symbol\":\"IBM\",\"buyerID\":\"".to_owned()),
        Part::Number(NUMBER_DIGITS),
        Part::Same("\",\"price\":140.34,\"volume\":2000,\"comment\":\"".to_owned()),
    ];
    padded(size, parts, "\"}")
}

/// Returns a message with orders as in the reference's files. The buyers differ from message to message.
fn soap(size: u64) -> Result<Text, String> {
    const HEAD: &str = r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Header><routing xmlns="http://someuri">xadmin;server1;community#1.0##</routing></soapenv:Header><soapenv:Body><m:buyStocks xmlns:m="http://services.samples/xsd"><order><symbol>IBM</symbol><buyerID>"#;
    const TAIL: &str = "</buyerID><price>140.34</price><volume>2000</volume></order></m:buyStocks></soapenv:Body></soapenv:Envelope>";
    const ORDERS: [[&str; 4]; 3] = [
        ["MSFT", "doe", "23.56", "8030"],
        ["SUN", "indika", "14.56", "500"],
        ["N", "n", "1.0", "1"],
    ];
    let mut parts = vec![Part::Same(HEAD.to_owned())];
    let fixed = HEAD.len() + TAIL.len() + NUMBER_DIGITS;
    let mut left = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(fixed + 1);
    let mut more = String::new();
    for at in 0.. {
        let [symbol, buyer, price, volume] = match ORDERS.get(at) {
            Some(order) => *order,
            None => ["N", "n", "1.0", "1"],
        };
        let order = format!(
            "</buyerID><price>{price}</price><volume>{volume}</volume></order><order><symbol>{symbol}</symbol><buyerID>{buyer}"
        );
        if order.len() > left {
            break;
        }
        left -= order.len();
        more.push_str(&order);
    }
    parts.push(Part::Number(NUMBER_DIGITS));
    if !more.is_empty() {
        parts.push(Part::Same(more));
    }
    padded(size, parts, TAIL)
}

/// Inserts random text before the end, so that the message has this size.
fn padded(size: u64, mut parts: Vec<Part>, end: &str) -> Result<Text, String> {
    let fixed = parts.iter().map(bytes).sum::<usize>() + end.len();
    let size = usize::try_from(size).map_err(|error| error.to_string())?;
    let random = size.checked_sub(fixed).filter(|left| *left > 0);
    let random =
        random.ok_or_else(|| format!("a message of this kind has at least {} bytes", fixed + 1))?;
    parts.push(Part::Random(random));
    parts.push(Part::Same(end.to_owned()));
    Ok(Text { parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_sizes_of_the_references_files() {
        for (payload, size, bytes) in [
            (Payload::Json, 50, 50),
            (Payload::Json, 1024, 1024),
            (Payload::Json, 102_400, 102_400),
            (Payload::Soap, 500, 499),
            (Payload::Soap, 1_000, 981),
            (Payload::Soap, 10_000, 9_997),
            (Payload::Soap, 100_000, 99_966),
            (Payload::JsonOrder, 500, 496),
            (Payload::Filled, 102_400, 102_400),
        ] {
            let body = body(payload, size).unwrap();
            assert_eq!(body.bytes(&BTreeMap::new()), Some(bytes), "{payload:?} {size}");
        }
        assert!(body(Payload::Json, 20).is_err());
    }

    #[test]
    fn varied_messages_are_well_formed_and_have_about_the_size() {
        for size in [500, 1024, 10_240, 102_400_u64] {
            let written = body(Payload::SoapVaried, size).unwrap().to_string();
            let places = ["${number:6}", "${number:5}", "${spaces:3}"];
            let text = places.iter().fold(written, |text, place| text.replace(place, "1"));
            let off = text.len().abs_diff(usize::try_from(size).unwrap());
            assert!(off < 150 + text.len() / 20, "{size}: {}", text.len());
            assert!(text.starts_with("<s1:Envelope xmlns:s1=") && text.ends_with("</s1:Envelope>"));
            assert_eq!(text.matches("<order>").count(), text.matches("</order>").count(), "{text}");
        }
    }
}
