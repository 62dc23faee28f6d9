//! Messages that a service may read in another way than the gateway: elements that no schema was asked about, and false labels.
//! They are refused, but for `errors: kong`, where they pass as they do there.

use super::*;

/// The policy with the calculator's description, and these keys.
fn held(errors: &str, keys: &str) -> String {
    let schema = "schema: calculator.wsdl, versions: [\"1.1\", \"1.2\"], verbose: true";
    format!("{errors}policies: [{{ soap: {{ {schema}{keys} }} }}]")
}

const KONG: &str = "errors: kong, ";

/// A message in one piece, and one in a chunk for every few bytes.
fn sent(gateway: &Gateway, lines: &str, body: &[u8]) -> [Message; 2] {
    let head = format!("POST /ws HTTP/1.1\r\nHost: a.test\r\n{lines}");
    let whole = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    let mut pieces = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(7) {
        pieces.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        pieces.extend_from_slice(piece);
        pieces.extend_from_slice(b"\r\n");
    }
    pieces.extend_from_slice(b"0\r\n\r\n");
    [[whole.as_bytes(), body].concat(), pieces].map(|request| gateway.wire().ask(request))
}

#[track_caller]
fn passes(gateway: &Gateway, lines: &str, body: &[u8]) {
    for reply in sent(gateway, lines, body) {
        let text = String::from_utf8_lossy(body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"), "{lines}{text}");
    }
}

#[track_caller]
fn refused(gateway: &Gateway, lines: &str, body: &[u8], said: &str) {
    for reply in sent(gateway, lines, body) {
        let text = reply.text();
        assert!(reply.status() == 500 && text.contains(said), "{lines}{text}");
        assert!(text.contains("Client</") || text.contains("env:Sender"), "{text}");
    }
}

const XML: &str = "Content-Type: text/xml\r\n";

/// An envelope without an encoding's name.
fn unlabelled(content: &str) -> String {
    envelope(SOAP_11, content).replace(" encoding=\"utf-8\"", "")
}

#[test]
fn a_body_holds_one_element() {
    let second = "Found more than one element in the 'soap:Body'";
    let good = operation("Add", "5", "7");
    let origin = Origin::saying("ok");
    let gateways = ["", ", action: optional"].map(|keys| gateway(&origin, &held("", keys)));
    let kong = gateway(&origin, &held(KONG, ""));
    let own = [
        operation("Add", "five", "7"),
        good.clone(),
        "<Evil xmlns=\"urn:x\"/>".to_owned(),
        "<soap:Fault><faultcode>a</faultcode><faultstring>b</faultstring></soap:Fault>".to_owned(),
    ];
    for gateway in &gateways {
        // Again and again, so that the knowledge of earlier messages is used.
        for _ in 0..4 {
            passes(gateway, XML, envelope(SOAP_11, &good).as_bytes());
            for other in &own {
                let body = envelope(SOAP_11, &format!("{good}{other}"));
                refused(gateway, XML, body.as_bytes(), second);
            }
            // A fault of the first is reported first.
            let body = envelope(SOAP_11, &format!("{}{good}", operation("Add", "five", "7")));
            refused(gateway, XML, body.as_bytes(), "Error Node: intA, Error code: 1824");
            // Comments and white space are not elements.
            let body = envelope(SOAP_11, &format!("{good} <!-- -->\n"));
            passes(gateway, XML, body.as_bytes());
        }
    }
    for other in &own[..3] {
        passes(&kong, XML, envelope(SOAP_11, &format!("{good}{other}")).as_bytes());
    }
    // In two bodies, without a schema for the envelope.
    let loose = gateway(
        &origin,
        &held("", ", envelope: off").replace("versions: [\"1.1\", \"1.2\"], ", ""),
    );
    let body = envelope(SOAP_11, &good);
    let twice = body.replace("</soap:Body>", "</soap:Body><soap:Body><Evil/></soap:Body>");
    passes(&loose, XML, body.as_bytes());
    refused(&loose, XML, twice.as_bytes(), "Found an element of SOAP behind");
    // Without a schema, they are not validated.
    let free = gateway(&origin, "policies: [{ soap: {} }]");
    passes(&free, XML, envelope(SOAP_11, &format!("{good}<Evil/>")).as_bytes());
}

#[test]
fn a_reply_has_one_element_in_its_body_too() {
    let result = |more: &str| {
        let content =
            "<AddResponse xmlns=\"http://tempuri.org/\"><AddResult>12</AddResult></AddResponse>";
        envelope(SOAP_11, &format!("{content}{more}"))
    };
    for (errors, more, status) in [("", "", 200), ("", "<Evil/>", 500), (KONG, "<Evil/>", 200)] {
        let origin = Origin::answering(answer(200, XML, result(more).as_bytes()));
        let gateway = gateway(&origin, &held(errors, ", validate: [response]"));
        for _ in 0..3 {
            assert_eq!(post(&gateway, &add()).status(), status, "{errors}{more}");
        }
    }
}

#[test]
fn nothing_of_soap_stands_behind_the_body() {
    let origin = Origin::saying("ok");
    for keys in ["schema: calculator.wsdl, ", ""] {
        let route =
            |errors: &str| format!("{errors}policies: [{{ soap: {{ {keys}verbose: true }} }}]");
        let (gateway, kong) = (gateway(&origin, &route("")), gateway(&origin, &route(KONG)));
        let good = envelope(SOAP_11, &operation("Add", "5", "7"));
        let behind = |element: &str| {
            good.replace("</soap:Body>", &format!("</soap:Body>{element}")).into_bytes()
        };
        let evil = format!("<z:Body xmlns:z=\"{SOAP_12}\"><Evil/></z:Body>");
        for _ in 0..3 {
            passes(&gateway, XML, &behind("<x:y xmlns:x=\"urn:q\"/>"));
            refused(
                &gateway,
                XML,
                &behind(&evil),
                "Found an element of SOAP behind the 'soap:Body'",
            );
            passes(&kong, XML, &behind(&evil));
        }
    }
}

#[test]
fn the_charset_of_a_request_is_the_one_it_was_read_in() {
    let origin = Origin::saying("ok");
    let (gateway, kong) = (gateway(&origin, &held("", "")), gateway(&origin, &held(KONG, "")));
    let ascii = unlabelled(&operation("Add", "5", "7"));
    let accent = ascii.replace("<intA>", "<!-- \u{e9} --><intA>");
    let latin: Vec<u8> = accent.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let declared = |name: &str| ascii.replace("?>", &format!(" encoding=\"{name}\"?>"));
    let wide = |mark: &str, to: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("{mark}{accent}").encode_utf16().flat_map(to).collect()
    };
    let (big, little) = (u16::to_be_bytes as fn(u16) -> [u8; 2], u16::to_le_bytes as fn(u16) -> _);
    for (charset, body) in [
        ("utf-8", accent.clone().into_bytes()),
        ("\"UTF-8\"", accent.clone().into_bytes()),
        ("utf8", declared("us-ascii").into_bytes()),
        ("us-ascii", ascii.clone().into_bytes()),
        ("iso-8859-1", ascii.clone().into_bytes()),
        ("iso-8859-1", latin.clone()),
        ("utf-16", wide("\u{feff}", big)),
        ("utf-16", wide("\u{feff}", little)),
        ("utf-16be", wide("", big)),
        ("utf-16le", wide("", little)),
    ] {
        let lines = format!("Content-Type: text/xml; charset={charset}\r\n");
        passes(&gateway, &lines, &body);
        passes(&kong, &lines, &body);
    }
    let said = "The 'charset' of the 'Content-Type' is";
    for (charset, body) in [
        ("utf-7", ascii.clone().into_bytes()),
        ("UTF-7", ascii.replace("<intA>", "<!-- +AC0ALQA+- --><intA>").into_bytes()),
        ("cp037", ascii.clone().into_bytes()),
        ("utf-16", ascii.clone().into_bytes()),
        ("utf-8; charset=utf-7", ascii.clone().into_bytes()),
        ("iso-8859-1", accent.clone().into_bytes()),
        ("us-ascii", accent.clone().into_bytes()),
        ("utf-8", wide("\u{feff}", big)),
        ("utf-16be", wide("\u{feff}", little)),
        ("utf-16", wide("", little)),
    ] {
        let lines = format!("Content-Type: text/xml; charset={charset}\r\n");
        let said = match charset {
            "utf-7" | "UTF-7" | "cp037" => format!("The charset '{charset}' is not supported"),
            "utf-16" if body == ascii.as_bytes() => {
                "The message is not in the charset 'utf-16'".to_owned()
            }
            _ => said.to_owned(),
        };
        for _ in 0..2 {
            refused(&gateway, &lines, &body, &said);
            passes(&kong, &lines, &body);
        }
    }
}

#[test]
fn a_request_is_of_the_version_that_its_content_type_says() {
    let origin = Origin::saying("ok");
    let (gateway, kong) = (gateway(&origin, &held("", "")), gateway(&origin, &held(KONG, "")));
    let [eleven, twelve] = [SOAP_11, SOAP_12].map(|of| envelope(of, &operation("Add", "5", "7")));
    let soap = "Content-Type: application/soap+xml; charset=utf-8\r\n";
    for (lines, body) in [
        (XML, &eleven),
        (soap, &twelve),
        ("", &eleven),
        ("", &twelve),
        ("Content-Type: application/xml\r\n", &twelve),
    ] {
        passes(&gateway, lines, body.as_bytes());
    }
    refused(&gateway, soap, eleven.as_bytes(), "Found a SOAP 1.1 envelope and the 'Content-Type'");
    refused(&gateway, XML, twelve.as_bytes(), "Found a SOAP 1.2 envelope and the 'Content-Type'");
    passes(&kong, soap, eleven.as_bytes());
    passes(&kong, XML, twelve.as_bytes());
}

#[test]
fn an_action_is_in_double_quotes_or_in_none() {
    let origin = Origin::saying("ok");
    let route = |errors| held(errors, ", action: required");
    let (gateway, kong) = (gateway(&origin, &route("")), gateway(&origin, &route(KONG)));
    let [eleven, twelve] = [SOAP_11, SOAP_12].map(|of| envelope(of, &operation("Add", "5", "7")));
    let header = |quote: &str| format!("{XML}SOAPAction: {quote}http://tempuri.org/Add{quote}\r\n");
    let typed = |rest: &str| format!("Content-Type: application/soap+xml; {rest}\r\n");
    for quote in ["", "\""] {
        passes(&gateway, &header(quote), eleven.as_bytes());
        let lines = typed(&format!("action={quote}http://tempuri.org/Add{quote}"));
        passes(&gateway, &lines, twelve.as_bytes());
    }
    refused(
        &gateway,
        &header("'"),
        eleven.as_bytes(),
        "should be 'http://tempuri.org/Add' and not",
    );
    passes(&kong, &header("'"), eleven.as_bytes());
    let not_correct = "it's not correctly defined";
    for lines in [
        typed("action='http://tempuri.org/Add'"),
        // One parameter where single quotes are quotes, and three where they are not.
        typed("x='; action=http://tempuri.org/Subtract; y='; action=http://tempuri.org/Add"),
    ] {
        refused(&gateway, &lines, twelve.as_bytes(), not_correct);
        passes(&kong, &lines, twelve.as_bytes());
    }
    // An escaped quote does not end a quoted string.
    let escaped = "x=\"\\\"; action=http://tempuri.org/Subtract; \"; action=http://tempuri.org/Add";
    passes(&gateway, &typed(escaped), twelve.as_bytes());
}

#[test]
fn a_request_in_a_content_coding_is_refused() {
    let origin = Origin::saying("ok");
    let (gateway, kong) = (gateway(&origin, &held("", "")), gateway(&origin, &held(KONG, "")));
    let good = add();
    let lines = |coding: &str| format!("{XML}Content-Encoding: {coding}\r\n");
    passes(&gateway, &lines("identity"), good.as_bytes());
    for coding in ["zstd", "br", "compress", "aws-chunked", "gzip", "identity, X-New"] {
        let name = coding.rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
        let said = format!("Content-encoding of type '{name}' is not supported");
        refused(&gateway, &lines(coding), good.as_bytes(), &said);
        passes(&kong, &lines(coding), good.as_bytes());
    }
    let asked = origin.requests().len();
    refused(&gateway, &lines("zstd"), b"(\xb5/\xfd", "type 'zstd' is not supported");
    assert_eq!(origin.requests().len(), asked, "nothing of it went on");
}
