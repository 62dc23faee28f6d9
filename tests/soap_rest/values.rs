//! Values of every sort, there and back.

use super::{answering, mirror, offering, post, sent, wrong};

/// JSON, and the corresponding XML within `<Order>`. The service returns it, and the JSON has to be the same.
pub(super) const VALUES: &[(&str, &str)] = &[
    (r#"{"number":1}"#, "<n0:number>1</n0:number>"),
    (
        r#"{"number":123456789012345678901234567890}"#,
        "<n0:number>123456789012345678901234567890</n0:number>",
    ),
    (
        r#"{"number":1,"rate":0.12345678901234567890}"#,
        "<n0:number>1</n0:number><n0:rate>0.12345678901234567890</n0:rate>",
    ),
    (r#"{"number":1,"weight":1.5e-7}"#, "<n0:number>1</n0:number><n0:weight>1.5e-7</n0:weight>"),
    (r#"{"number":1,"weight":"-INF"}"#, "<n0:number>1</n0:number><n0:weight>-INF</n0:weight>"),
    (r#"{"number":1,"paid":true}"#, "<n0:number>1</n0:number><n0:paid>true</n0:paid>"),
    (r#"{"number":1,"due":"2026-01-31"}"#, "<n0:number>1</n0:number><n0:due>2026-01-31</n0:due>"),
    (r#"{"number":1,"due":null}"#, r#"<n0:number>1</n0:number><n0:due xsi:nil="true"/>"#),
    (
        r#"{"number":1,"price":{"@currency":"EUR","value":9.90}}"#,
        r#"<n0:number>1</n0:number><n0:price currency="EUR">9.90</n0:price>"#,
    ),
    (
        r#"{"number":1,"item":[{"name":"a","item":[{"name":"b"}]},{"name":"c"}]}"#,
        "<n0:number>1</n0:number><n0:item><n0:name>a</n0:name><n0:item><n0:name>b</n0:name></n0:item></n0:item><n0:item><n0:name>c</n0:name></n0:item>",
    ),
    (
        r#"{"number":1,"tag":["x",null,""]}"#,
        r#"<n0:number>1</n0:number><n0:tag>x</n0:tag><n0:tag xsi:nil="true"/><n0:tag></n0:tag>"#,
    ),
    (r#"{"number":1,"sizes":[1,-2,3]}"#, "<n0:number>1</n0:number><n0:sizes>1 -2 3</n0:sizes>"),
    (r#"{"number":1,"card":"4"}"#, "<n0:number>1</n0:number><n0:card>4</n0:card>"),
    (
        r#"{"number":1,"iban":"D","bic":"E"}"#,
        "<n0:number>1</n0:number><n0:iban>D</n0:iban><n0:bic>E</n0:bic>",
    ),
    (
        r#"{"number":1,"shape":{"$type":"Circle","colour":"red","radius":3}}"#,
        r#"<n0:number>1</n0:number><n0:shape xmlns:t="urn:types" xsi:type="t:Circle"><n0:colour>red</n0:colour><n0:radius>3</n0:radius></n0:shape>"#,
    ),
    (r#"{"number":1,"phone":"12"}"#, "<n0:number>1</n0:number><n0:phone>12</n0:phone>"),
    (
        r#"{"number":1,"$items":[{"at":"08:00:00"},{"what":"up"},{"at":"09:00:00"},{"what":"down"}]}"#,
        "<n0:number>1</n0:number><n0:at>08:00:00</n0:at><n0:what>up</n0:what><n0:at>09:00:00</n0:at><n0:what>down</n0:what>",
    ),
    (r#"{"number":1,"note":"plain"}"#, "<n0:number>1</n0:number><n0:note>plain</n0:note>"),
    (
        r#"{"number":1,"note":{"$items":["a ",{"b":"bold"}," and ",{"n":1}]}}"#,
        "<n0:number>1</n0:number><n0:note>a <n0:b>bold</n0:b> and <n0:n>1</n0:n></n0:note>",
    ),
    (
        r#"{"number":1,"kind":"{urn:k}fast"}"#,
        r#"<n0:number>1</n0:number><n0:kind xmlns:q="urn:k">q:fast</n0:kind>"#,
    ),
    (
        r#"{"number":1,"kind":"{http://www.w3.org/XML/1998/namespace}lang"}"#,
        "<n0:number>1</n0:number><n0:kind>xml:lang</n0:kind>",
    ),
    (
        r#"{"number":1,"anything":"text"}"#,
        "<n0:number>1</n0:number><n0:anything>text</n0:anything>",
    ),
    (
        r#"{"number":1,"anything":{"$type":"int","value":7}}"#,
        r#"<n0:number>1</n0:number><n0:anything xmlns:t="http://www.w3.org/2001/XMLSchema" xsi:type="t:int">7</n0:anything>"#,
    ),
    (
        r#"{"number":1,"anything":{"$type":"Item","name":"x"}}"#,
        r#"<n0:number>1</n0:number><n0:anything xmlns:t="urn:types" xsi:type="t:Item"><n0:name>x</n0:name></n0:anything>"#,
    ),
    (
        r#"{"number":1,"$any":["<x xmlns=\"urn:x\"><y>1</y></x>"]}"#,
        r#"<n0:number>1</n0:number><x xmlns="urn:x"><y>1</y></x>"#,
    ),
];

/// The start tag declares the namespaces of all possible content; the order's own attributes follow.
fn inside(xml: &str) -> &str {
    let rest = xml.strip_prefix("<n0:Order").and_then(|rest| rest.strip_suffix("</n0:Order>"));
    let rest = rest.unwrap_or_else(|| panic!("{xml}"));
    &rest[rest.find('>').expect("the end of the tag") + 1..]
}

#[test]
fn values_of_every_sort_go_there_and_back() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    for (json, xml) in VALUES {
        let reply = post(&gateway, "/api/Order", json);
        assert_eq!((reply.status(), reply.text().as_str()), (200, *json));
        assert_eq!(inside(&sent(&origin)), *xml, "{json}");
    }
}

#[test]
fn attributes_are_members_with_an_at_sign() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    let json = r#"{"@id":7,"@urgent":false,"@{urn:a}b":"c & \"d\"","number":1}"#;
    let reply = post(&gateway, "/api/Order", json);
    assert_eq!((reply.status(), reply.text().as_str()), (200, json));
    let sent = sent(&origin);
    assert!(sent.starts_with("<n0:Order xmlns:n0=\"urn:types\""), "{sent}");
    assert!(
        sent.contains(r#" id="7" urgent="false" xmlns:o6="urn:a" o6:b="c &amp; &quot;d&quot;">"#),
        "{sent}"
    );
}

#[test]
fn members_come_in_any_order_and_escaped() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    let json = r#" { "card" : "\u00e9\n" , "item":[ ] , "paid":null, "\u006eumber" : 1e2 } "#;
    let reply = post(&gateway, "/api/Order", json);
    assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"number":100,"card":"é\n"}"#));
    assert_eq!(inside(&sent(&origin)), "<n0:number>100</n0:number><n0:card>é\n</n0:card>");
}

/// JSON that does not fit, and the text for the client.
const MISFITS: &[(&str, &str)] = &[
    ("1", "/: expected an object, found a number"),
    ("[]", "/: expected an object, found an array"),
    ("{}", "/: expected the member `number`, which is missing"),
    ("", "/: expected the member `number`, which is missing"),
    (r#"{"number":"1"}"#, "/number: expected a whole number, found a string"),
    (r#"{"number":{}}"#, "/number: expected a whole number, found an object"),
    (r#"{"number":null}"#, "/: expected the member `number`, which is missing"),
    (r#"{"number":1,"number":2}"#, "/number: expected one member of this name"),
    (r#"{"number":1,"paid":"true"}"#, "/paid: expected true or false, found a string"),
    (r#"{"number":1,"item":{"name":"a"}}"#, "/item: expected an array, found an object"),
    (
        r#"{"number":1,"item":[{"name":"a"},{"name":1}]}"#,
        "/item/1/name: expected a string, found a number",
    ),
    (
        r#"{"number":1,"item":[{"name":"a","other":1}]}"#,
        "/item/0/other: expected one of `name`, `item`",
    ),
    (
        r#"{"number":1,"item":[{"name":"a"},{"name":"a"},{"name":"a"},{"name":"a"}]}"#,
        "/item: expected 0 to 3 items, found 4",
    ),
    (
        r#"{"number":1,"card":"4","iban":"D"}"#,
        "/: expected only one choice of `card`, `iban`, `bic`",
    ),
    (r#"{"number":1,"bic":"E"}"#, "/: expected the member `iban`, which is missing"),
    (r#"{"number":1,"price":9}"#, "/price: expected an object, found a number"),
    (
        r#"{"number":1,"price":{"value":9}}"#,
        "/price: expected the member `@currency`, which is missing",
    ),
    (
        r#"{"number":1,"price":{"@currency":"EUR"}}"#,
        "/price: expected the member `value`, which is missing",
    ),
    (
        r#"{"number":1,"shape":{"radius":3}}"#,
        "/shape: expected `$type` to be one of `Circle`, `Square`",
    ),
    (
        r#"{"number":1,"shape":{"$type":"Line"}}"#,
        "/shape/$type: expected one of `Circle`, `Square`",
    ),
    (
        r#"{"number":1,"weight":"much"}"#,
        "/weight: expected a number, or \"INF\", \"-INF\" or \"NaN\", found a string",
    ),
    (
        r#"{"number":1,"tag":["\u0000"]}"#,
        "/tag/0: expected a string of characters that XML can hold",
    ),
    (
        r#"{"number":1,"$any":["<x"]}"#,
        "/$any/0: expected an element of XML: 1:3: the document ends within a start tag",
    ),
    (r#"{"number":1,"$any":["<a/><b/>"]}"#, "/$any/0: expected an element of XML: "),
    (r#"{"number":1,"$any":["</n0:Order>"]}"#, "/$any/0: expected an element of XML: "),
    (r#"{"number":1,"@{urn:a}b c=\"d":"e"}"#, "/@{urn:a}b c=\"d: expected an XML name after `@`"),
    (r#"{"number":1,"@{urn:a} b":"c"}"#, "/@{urn:a} b: expected an XML name after `@`"),
    (r#"{"number":1,"@ b":"c"}"#, "/@ b: expected an XML name after `@`"),
    (
        r#"{"number":1,"@{http://www.w3.org/2000/xmlns/}b":"c"}"#,
        "/@{http:~1~1www.w3.org~12000~1xmlns~1}b: expected a namespace that may be declared",
    ),
    (
        r#"{"number":1,"kind":"{http://www.w3.org/2000/xmlns/}b"}"#,
        "/kind: expected a namespace that may be declared",
    ),
    (
        r#"{"number":1,"item":[{"$type":"Other","name":"a"}]}"#,
        "/item/0/$type: expected one of `Item`",
    ),
    (r#"{"number":1,"item":[{"$type":1,"name":"a"}]}"#, "/item/0/$type: expected one of `Item`"),
    (
        r#"{"number":1,"shape":{"\u0024type":"Square","$type":"Circle","side":2}}"#,
        "/shape/$type: expected one member of this name",
    ),
    (r#"{"number":1,"$headers":{}}"#, "/$headers: expected one of "),
    (r#"{"number":1,"due":"31.1.2026"}"#, "/due: expected a string: "),
    (r#"{"number":1,"state":"ajar"}"#, "/state: expected a string: "),
    (r#"{"number":1,"$items":[{"what":"up"}]}"#, "/: expected what the schema allows: "),
    (r#"{"number":1,"$items":[{"who":"up"}]}"#, "/$items/0/who: expected one of `at`, `what`"),
    (r#"{"number":1e999}"#, "/number: expected a number with fewer digits"),
    (r#"{"number":1.5}"#, "/number: expected a whole number: "),
    (r#"{"number":1,"a/b~c":1}"#, "/a~1b~0c: expected one of "),
];

#[test]
fn what_does_not_fit_is_refused_with_a_pointer_and_what_was_expected() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    for (json, error) in MISFITS {
        let reply = post(&gateway, "/api/Order", json);
        assert_eq!(reply.status(), 400, "{json}: {}", reply.text());
        assert_eq!(reply.get("content-type"), Some("application/problem+json"));
        let found = wrong(&reply);
        let fits = if error.ends_with(' ') { found.starts_with(error) } else { found == *error };
        assert!(fits, "{json}: {found}");
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn a_reply_is_read_by_names_and_not_by_prefixes() {
    for (xml, json) in [
        (r#"<Order xmlns="urn:types"><number>+007</number></Order>"#, r#"{"number":7}"#),
        (
            r#"<a:Order xmlns:a="urn:types" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
                xsi:schemaLocation="urn:types x.xsd">
                <a:number> 1 </a:number><a:rate>.50</a:rate> <a:paid>1</a:paid><!-- - -->
                <a:tag><![CDATA[<x>]]> &amp; "y"</a:tag></a:Order>"#,
            r#"{"number":1,"rate":0.50,"paid":true,"tag":["<x> & \"y\""]}"#,
        ),
        (
            r#"<Order xmlns="urn:types"><number>1</number><state/></Order>"#,
            r#"{"number":1,"state":"open"}"#,
        ),
        (
            r#"<Order xmlns="urn:types" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" xmlns:x="urn:types"><number>1</number><shape i:type="x:Square"><side>2</side></shape></Order>"#,
            r#"{"number":1,"shape":{"$type":"Square","side":2}}"#,
        ),
    ] {
        let origin = answering(200, xml);
        let gateway = offering(&origin, "");
        let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
        assert_eq!((reply.status(), reply.text().as_str()), (200, json), "{xml}");
    }
}

#[test]
fn a_reply_that_breaks_its_type_is_no_reply() {
    for xml in [
        r#"<Order xmlns="urn:types"/>"#,
        r#"<Order xmlns="urn:types"><number>x</number></Order>"#,
        r#"<Order xmlns="urn:types"><number>1</number><number>2</number></Order>"#,
        r#"<Order xmlns="urn:types"><number>1</number><other/></Order>"#,
        r#"<Order xmlns="urn:types">text<number>1</number></Order>"#,
        r#"<Order xmlns="urn:types" other="1"><number>1</number></Order>"#,
        r#"<Order xmlns="urn:types"><number>1</number><card>1</card><iban>2</iban></Order>"#,
        r#"<Order xmlns="urn:types"><number>1</number><item/></Order>"#,
        r#"<Order xmlns="urn:types"><number>1</number><shape/></Order>"#,
        r#"<Order xmlns="urn:other"><number>1</number></Order>"#,
        r#"<Order xmlns="urn:types" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><number i:nil="true"/></Order>"#,
        "",
        "<x",
    ] {
        let origin = answering(200, xml);
        let gateway = offering(&origin, "");
        let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
        assert_eq!(reply.status(), 502, "{xml}: {}", reply.text());
        assert_eq!(reply.get("content-type"), Some("application/problem+json"));
        assert!(reply.text().contains(r#""fault":"reply_invalid""#), "{}", reply.text());
    }
}

#[test]
fn deep_and_large_messages_are_refused() {
    let origin = mirror();
    let gateway = offering(&origin, "body_bytes_max: 4KiB");
    let nested = |depth: usize| {
        let open = r#"{"name":"a","item":["#.repeat(depth);
        format!(r#"{{"number":1,"item":[{open}{}]}}"#, "]}".repeat(depth))
    };
    assert_eq!(post(&gateway, "/api/Order", &nested(40)).status(), 200);
    let deep = post(&gateway, "/api/Order", &nested(60));
    assert_eq!(deep.status(), 400);
    assert!(wrong(&deep).ends_with("expected fewer objects and arrays inside one another"));
    let large = format!(r#"{{"number":1,"card":"{}"}}"#, "x".repeat(5000));
    assert_eq!(post(&gateway, "/api/Order", &large).status(), 413);
    // The size after the translation is bounded too.
    let nulls = format!(r#"{{"number":1,"tag":[null{}]}}"#, ",null".repeat(790));
    assert!(nulls.len() < 4096);
    let reply = post(&gateway, "/api/Order", &nulls);
    assert!(matches!(reply.status(), 413 | 502), "{}", reply.status());
}
