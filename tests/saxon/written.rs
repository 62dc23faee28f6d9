//! Our half of the bridge writes as Saxon does. The same stylesheet with a word more, which only makes Saxon's own code write,
//! has the same result for every message.

use super::*;

/// The attributes of `xsl:output`.
const OUTPUTS: &[&str] = &[
    "",
    "indent=\"yes\"",
    "omit-xml-declaration=\"yes\"",
    "method=\"xml\" encoding=\"utf-8\" indent=\"yes\" omit-xml-declaration=\"yes\"",
    "method=\"xml\" version=\"1.0\" encoding=\"iso-8859-1\"",
    "method=\"text\"",
];

const BODIES: &[&str] = &[
    "<xsl:mode on-no-match=\"shallow-copy\"/>",
    "<xsl:strip-space elements=\"*\"/><xsl:mode on-no-match=\"shallow-copy\"/>",
    "<xsl:template match=\"/\"><xsl:sequence select=\"1, 'a', //comment(), //b, 2, 3\"/></xsl:template>",
    "<xsl:template match=\"/\"><xsl:for-each select=\"//*\"><xsl:element name=\"n:{local-name()}\" namespace=\"urn:{position() mod 3}\" inherit-namespaces=\"no\"><xsl:copy-of select=\"@*, node()\"/></xsl:element></xsl:for-each></xsl:template>",
    "<xsl:template match=\"/\"><html><head/><body><xsl:copy-of select=\"*\"/><br/></body></html></xsl:template>",
    "<xsl:template match=\"/\"><html xmlns=\"http://www.w3.org/1999/xhtml\"><br/></html></xsl:template>",
    "<xsl:template match=\"/\"/>",
    "<xsl:template match=\"/\">text<xsl:copy-of select=\"*\"/></xsl:template>",
    "<xsl:template match=\"/\"><xsl:comment>c</xsl:comment><a><xsl:text disable-output-escaping=\"yes\">&lt;raw/></xsl:text></a></xsl:template>",
    "<xsl:template match=\"/\"><xsl:result-document method=\"xml\" indent=\"no\"><a><xsl:copy-of select=\"*/*\"/></a></xsl:result-document></xsl:template>",
    "<xsl:template match=\"/\"><xsl:sequence select=\"map {}\"/></xsl:template>",
    "<xsl:template match=\"/\"><xsl:copy-of select=\"//@*\"/></xsl:template>",
];

const DOCUMENTS: &[&str] = &[
    "<a/>",
    "<!--first--><a xmlns='u' x='&lt;&#10;&#9;&quot;&gt;'><b xmlns=''><c/></b> <d/>\n<?pi data?></a><!--last-->",
    "<a>1 &lt; 2 &amp; ]]&gt; &#13;\u{85}\u{7f}\u{e9}\u{65e5}\u{1F600}\u{2028}<b>mixed</b> text <b/></a>",
    "<p:a xmlns:p='urn:p' xmlns:q='urn:q' p:one='a value of some length' q:two='another value, so that the line is full'><q:b xmlns:p='urn:other' p:x='1'/><b xml:space='preserve'> <c/> </b>  <b>\n</b></p:a>",
    "<a><b><c>\n      1\n</c><c><!-- c --></c></b><b>  </b><b><c/>\n\n</b></a>",
];

/// Calls of the two functions; `more` makes them Saxon's own.
const JSON: &[&str] = &[
    "<xsl:copy-of select=\"json-to-xml(.MORE)\"/>",
    "<xsl:value-of select=\"xml-to-json(json-to-xml(.)MORE)\"/>",
    "<xsl:value-of select=\"xml-to-json(json-to-xml(.)/*MORE), json-to-xml(.MORE)//@key\"/>",
];

const TEXTS: &[&str] = &[
    r#"{"a": [1, -0, 1.50, 1e3, 1000000, 0.000001, 123456789012345678], "b": {"": null, "c": [true, false, {}, []]}}"#,
    r#"["\u00e9\ud83d\ude00 \b\f\n\r\t\/\\\"", "\u0000\uffff\ud83d", "é日😀\u007f\u0085\u001f", "a/b", "<&>"]"#,
    r#"{"a": 1, "a": 2}"#,
    r#""only""#,
    "",
    "{\"a\":}",
    "[01]",
    "[\"\\x\"]",
    "[1e400]",
    "[1] 2",
    "{}",
    " [ ] ",
    "[[],{},[{}],\"\",\"\\\"\\\\\\/\\n\\r\\t\"]",
    "[-1, 0.5, -0.5e-7, 1E+2, 0e0]",
    "[-]",
    "[1.]",
    "[.1]",
    "[1e]",
    "[1e+]",
    "[+1]",
    "[00]",
    "[\"\n\"]",
    "[\"a\\tb\nc\"]",
    "[\"\u{7f}\"]",
    "[\"\u{1}\"]",
    "[\u{a0}1]",
    "[truE]",
    "[nul]",
    "[true false]",
    "[1}",
    "{1: 2}",
    "{\"a\" 1}",
    "{\"a\": 1,}",
];

/// Any missing end and any surplus inside is found as Saxon finds it.
const BROKEN: &str = r#"{"a": [1, -2.5e3, "x\"y"], "b": {"c": null, "d": true}}"#;

const TO_JSON: &str = "<xsl:value-of select=\"xml-to-json(.MORE)\"/>";

/// Maps and lists, good and bad, below an element in their namespace.
const TREES: &[&str] = &[
    "<map><string key='a'>x<!--c-->y</string><number key='b'> 60 </number><null key='c'/><boolean key='d'>1</boolean></map>",
    "<array><number>1</number><number>-1</number><number>1.0</number><number>1e21</number><string/>\n<map/></array>",
    "<map><string key='a'/><string key='a'/></map>",
    "<map><string/></map>",
    "<array><string key='a'/></array>",
    "<array>text</array>",
    "<map><string key='a\\n' escaped-key='true' escaped='true'>\\u00e9</string></map>",
    "<array><number>x</number></array>",
    "<array><null>x</null></array>",
    "<array><string><string/></string></array>",
    "<other/>",
    "<array><p:x xmlns:p='p'/></array>",
];

/// Compares the replies of the routes `ours-N` and `saxon-N` for each of these bodies.
#[track_caller]
fn compare(pairs: &[[String; 2]], content_type: &str, bodies: &[String]) -> usize {
    let origin = Origin::echo();
    let names: Vec<[String; 2]> =
        (0..pairs.len()).map(|n| [format!("ours-{n}"), format!("saxon-{n}")]).collect();
    let sheets: Vec<(&str, &str)> = std::iter::zip(&names, pairs)
        .flat_map(|(names, pair)| std::iter::zip(names, pair))
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let gateway = transforming(&origin, "", &sheets);
    let mut good = 0;
    for ([ours, saxons], [text, _]) in std::iter::zip(&names, pairs) {
        for body in bodies {
            let said = |name: &str| {
                let reply = post(&gateway, &format!("/{name}"), content_type, body);
                let text = reply.text();
                // A fault ends with the number of its request.
                let same = text.split_once(",\"request_id\"").map_or(&*text, |(same, _)| same);
                (reply.status(), same.replace(name, "NAME"))
            };
            let (ours, saxons) = (said(ours), said(saxons));
            assert_eq!(ours, saxons, "{text}\nof {body}");
            good += usize::from(ours.0 == 200);
        }
    }
    good
}

#[test]
fn results_are_written_as_saxon_writes_them() {
    let pair = |output: &str, body: &str| {
        let plain = sheet(&format!("<xsl:output {output}/>{body}"));
        let saxons = sheet(&format!("<xsl:output {output} normalization-form=\"none\"/>{body}"));
        [plain, saxons]
    };
    let documents: Vec<String> = DOCUMENTS.iter().map(|text| (*text).to_owned()).collect();
    let mut good = 0;
    // A gateway for each, so that none has too much to compile before it starts.
    for output in OUTPUTS {
        let pairs: Vec<_> = BODIES.iter().map(|body| pair(output, body)).collect();
        good += compare(&pairs, "text/xml", &documents);
    }
    let all = OUTPUTS.len() * BODIES.len() * documents.len();
    assert!(good > all * 3 / 4, "{good} of {all}");
}

fn functions(calls: &[&str]) -> Vec<[String; 2]> {
    let text = |call: &str, more: &str| {
        let call = call.replace("MORE", more);
        sheet(&format!("<xsl:template match=\"/\">{call}</xsl:template>"))
    };
    calls.iter().map(|call| [text(call, ""), text(call, ", map {}")]).collect()
}

#[test]
fn json_is_read_and_written_as_saxon_does() {
    let nested = |deep: usize| format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    texts.extend([nested(60), nested(70)]);
    for (at, _) in BROKEN.char_indices() {
        let (before, after) = BROKEN.split_at(at);
        texts.push(before.to_owned());
        texts.extend([",", "\n", "\"", "0", "}"].map(|more| format!("{before}{more}{after}")));
    }
    let good = compare(&functions(JSON), "application/json", &texts);
    assert!(good >= 12, "{good}");
    let tree = |text: &&str| {
        let end = text.find(['>', ' ', '/']).unwrap();
        let (start, rest) = text.split_at(end);
        format!("{start} xmlns='http://www.w3.org/2005/xpath-functions'{rest}")
    };
    let trees: Vec<String> = TREES.iter().map(tree).collect();
    let good = compare(&functions(&[TO_JSON]), "text/xml", &trees);
    assert!(good >= 2, "{good}");
}

/// A message with known markup is reported with its own texts.
#[test]
fn the_same_markup_is_told_with_other_texts() {
    let origin = Origin::echo();
    let joined = value("string-join(//text(), '|')");
    let gateway = transforming(&origin, "", &[("joined", &joined)]);
    let long = "long ".repeat(60);
    for text in ["1", "two", &long, "é日", "3", "&lt;", "<!-- no text -->", "4"] {
        let message = format!("<a xmlns='u'><b>first</b><c x='1'>{text}</c> <c/></a>");
        let told = match text {
            "&lt;" => "first|<| ".to_owned(),
            "<!-- no text -->" => "first| ".to_owned(),
            text => format!("first|{text}| "),
        };
        assert_eq!(transform(&gateway, "joined", &message).text(), told);
    }
}
