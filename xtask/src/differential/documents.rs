//! Random documents, and mutations that break them where parsers differ.

use fastrand::Rng;

const NAMES: &[&str] = &["a", "b", "item", "p:a", "q:b", "x-y", "n1", "été"];
const DECLARATIONS: &[&str] = &[
    "xmlns=\"urn:d\"",
    "xmlns:p=\"urn:p\"",
    "xmlns:q=\"urn:q\"",
    "xmlns:p=\"urn:q\"",
    "xmlns=\"\"",
];
const VALUES: &[&str] =
    &["", "1", "a b", "&amp;&lt;", "&#65;", "&#x1F600;", "tab\there", "'", "line\nend", "é"];
const TEXTS: &[&str] = &[
    "text",
    " ",
    "\n  ",
    "&gt;&amp;",
    "]]&gt;",
    "&#13;",
    "\r\n",
    "\u{1F600}",
    "12",
    "<![CDATA[<&]]>",
    "<!-- c -->",
    "<?pi data?>",
    "<![CDATA[]]]]>",
    "<!---->",
];
const PIECES: &[&str] = &[
    "<",
    ">",
    "&",
    "\"",
    "'",
    "/",
    "=",
    "]]>",
    "--",
    "<!",
    "<?",
    "?>",
    "xml",
    ":",
    "\u{0}",
    "\u{1}",
    "\u{FFFE}",
    "\u{85}",
    " ",
    "&#0;",
    "&#xD800;",
    "&u;",
    "xmlns:p=\"\"",
    "<!DOCTYPE a>",
    "\u{FEFF}",
    "</a>",
    "<a>",
];

/// A well-formed document, with prefixes declared at its root.
pub(crate) fn document(random: &mut Rng) -> Vec<u8> {
    let mut out = String::new();
    if random.bool() {
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    }
    if random.u8(0..4) == 0 {
        out.push_str("<!DOCTYPE a [<!ENTITY u \"<b>in</b>\"><!ATTLIST a k CDATA \"v\">]>\n");
    }
    out.push_str("<a xmlns:p=\"urn:p\" xmlns:q=\"urn:q\">");
    content(random, 4, &mut out);
    out.push_str("</a>");
    if random.u8(0..4) == 0 {
        out.push_str("\n<!-- end -->");
    }
    out.into_bytes()
}

/// A document without unusual features, for stylesheets.
pub(crate) fn plain(random: &mut Rng) -> Vec<u8> {
    let mut out = String::from("<list>");
    for number in 0..random.usize(0..12) {
        let group = random.u8(b'a'..b'e') as char;
        let price = random.i32(-5..500);
        out.push_str(&format!(
            "<item id=\"i{number}\" group=\"{group}\"><name>n{}</name>",
            random.u8(..20)
        ));
        out.push_str(&format!("<price>{}.{:02}</price>", price, random.u8(..100)));
        if random.bool() {
            out.push_str(&format!(
                "<note xmlns:p=\"urn:p\" p:k=\"v\">see <b>{number}</b> &amp; on</note>"
            ));
        }
        out.push_str("</item>\n");
    }
    out.push_str("</list>");
    out.into_bytes()
}

fn content(random: &mut Rng, depth: usize, out: &mut String) {
    for _ in 0..random.usize(0..4) {
        match random.u8(0..3) {
            0 if depth > 0 => element(random, depth - 1, out),
            _ => out.push_str(any(random, TEXTS)),
        }
    }
}

fn element(random: &mut Rng, depth: usize, out: &mut String) {
    let name = any(random, NAMES);
    out.push_str(&format!("<{name}"));
    if random.u8(0..3) == 0 {
        out.push_str(&format!(" {}", any(random, DECLARATIONS)));
    }
    for number in 0..random.usize(0..3) {
        let value = any(random, VALUES);
        out.push_str(&if random.bool() {
            format!(" k{number}='{}'", value.replace('\'', "&apos;"))
        } else {
            format!(" p:k{number} = \"{value}\"")
        });
    }
    if random.u8(0..4) == 0 {
        out.push_str("/>");
        return;
    }
    out.push('>');
    content(random, depth, out);
    out.push_str(&format!("</{name}>"));
}

/// Makes a change that probably breaks the document.
pub(crate) fn mutate(document: &mut Vec<u8>, random: &mut Rng) {
    let at = random.usize(..=document.len());
    let to = (at + random.usize(1..8)).min(document.len());
    let cut: Vec<u8> = match random.u8(0..4) {
        0 => {
            document.drain(at..to);
            return;
        }
        1 => document.get(at..to).unwrap_or_default().to_vec(),
        2 => vec![random.u8(..)],
        _ => any(random, PIECES).as_bytes().to_vec(),
    };
    document.splice(at..at, cut);
}

fn any<'a>(random: &mut Rng, list: &[&'a str]) -> &'a str {
    random.choice(list.iter().copied()).unwrap_or_default()
}
