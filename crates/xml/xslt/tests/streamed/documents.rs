//! Documents, and pieces of documents.

/// Entities, an attribute with a default, one that declares a namespace.
pub(crate) const SUBSET: &str = "<!DOCTYPE a [<!ENTITY e 'en&#38;amp;ti&lt;ty'><!ENTITY m 'x<c>in &#38;amp; it</c> y'><!ENTITY b ' '>\
<!ATTLIST c d CDATA 'def' xmlns:s CDATA #FIXED 'urn:s'><!ATTLIST a i ID #IMPLIED>]>";

/// Written by hand, each for one purpose.
pub(crate) const DOCUMENTS: &[&str] = &[
    "<a x='1' p:y='2' xmlns:p='urn:p'>t1<b>t2<c/>t3</b><!--co--><?pi da?><p:b z='&lt;'>t4</p:b> <p:d><b k='v'>5</b></p:d>t6</a>",
    "<soap:Envelope xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' \
     xmlns:soap='http://schemas.xmlsoap.org/soap/envelope/'>\n  <soap:Header><h xsi:type='x'/></soap:Header>\n  <soap:Body>\n    \
     <Subtract xmlns='http://tempuri.org/'>\n      <intA>5</intA>\n      <intB>7</intB>\n    </Subtract>\n  </soap:Body>\n</soap:Envelope>",
    "<?xml version='1.0'?><!--before--><?before it?><a xmlns='urn:p'><b xmlns=''><c xmlns='urn:q'><d xmlns=''/></c></b><e/></a><!--behind--><?behind?>",
    "<a xmlns:p='urn:p'><p:b xmlns:p='urn:q' p:x='1'><p:c xmlns:p='urn:p' xmlns:q='urn:p' q:x='2'/></p:b><p:b/></a>",
    "<a xml:space='preserve'> <b xml:space='default'> <c> </c> x </b> <b> <c xml:space='other'> </c></b> </a>",
    "<a> &#32;<b>&#32;</b><![CDATA[ ]]><c><![CDATA[]]> </c>x<d> <![CDATA[<y>]]>&amp;\r\n z</d>\r</a>",
    "<a>one<!--c-->two<?p?>three<b/>four<![CDATA[five]]>six&#55;</a>",
    "<a xml:lang='de' x='&#10;&#9;&quot;&lt;&gt;' y=\"'\">&lt;&gt;&amp;]]&gt;&#13;é€😀</a>",
    "<html><head><title>t</title><meta http-equiv='Content-Type' content='x'/></head><body><br/><script>a&lt;b</script>\
     <pre> x </pre><a href='é &amp;'>&#160;</a></body></html>",
    "<!DOCTYPE a [<!ENTITY e 'x<b>y</b> '><!ENTITY s ' '><!ATTLIST b k CDATA 'd' xmlns:z CDATA #FIXED 'urn:z'>\
     <!NOTATION n SYSTEM 'n'><!ENTITY u SYSTEM 'u' NDATA n>]><a>&e;&s;<b k='own'>&s;&s;</b>&e;</a>",
    "<a><b><a><b><c><b x='1'><a>deep</a></b></c></b></a></b></a>",
    "<a><b>1</b><b>2</b><c>3</c><b/><d><b>4</b></d>5<e>6</e></a>",
    "<x:a xmlns:x='urn:p' xmlns:y='urn:p' y:k='1'><y:b/><x:b x:k='2' k='3'/></x:a>",
    "<a xmlns='urn:q' xmlns:q='urn:q' xmlns:p='urn:p'><p:b><d xmlns='urn:p'/><q:c/></p:b></a>",
    "<a/>",
    "<a></b>",
    "<a>",
    "",
    "<a x='1' x='2'/>",
    "<p:a/>",
    "<a>&unknown;</a>",
    "text",
];

/// In encodings that are not UTF-8.
pub(crate) fn encoded() -> Vec<Vec<u8>> {
    let text = "<a é='1'>ä<!--ö--><b>ü&#8364;</b> <c>ß</c></a>";
    let latin = format!("<?xml version='1.0' encoding='ISO-8859-1'?>{text}");
    let wide = format!("<?xml version='1.0' encoding='UTF-16'?>{text}");
    let units: Vec<u16> = wide.encode_utf16().collect();
    let with_mark = |mark: u16, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(mark).chain(units.iter().copied()).flat_map(bytes).collect()
    };
    // Long enough for several windows of the parser.
    let mut long: Vec<u8> =
        b"<?xml version='1.0' encoding='ISO-8859-1'?><a xmlns:p='urn:p'>".to_vec();
    for number in 0..900 {
        long.extend_from_slice(format!("<p:b k='{number}'> <c>x</c>t\r\n</p:b>").as_bytes());
        long.push(0xe4);
    }
    long.extend_from_slice(b"</a>");
    vec![
        latin.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect(),
        with_mark(0xfeff, u16::to_be_bytes),
        with_mark(0xfeff, u16::to_le_bytes),
        [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        long,
        b"<a>\xff</a>".to_vec(),
        b"<?xml version='1.0' encoding='koi8-r'?><a/>".to_vec(),
    ]
}

pub(crate) const TAGS: &[&str] = &["a", "b", "c", "d", "p:b", "q:c", "r:b", "p:d", "intB"];

pub(crate) const ATTRIBUTES: &[&str] = &[
    "x='1'",
    "y='&amp;&#10;'",
    "p:x='2'",
    "q:k=' 3 '",
    "xmlns='urn:p'",
    "xmlns='urn:q'",
    "xmlns=''",
    "xmlns:p='urn:p'",
    "xmlns:p='urn:q2'",
    "xmlns:n='urn:n'",
    "xmlns:q='urn:q'",
    "xml:space='preserve'",
    "xml:space='default'",
    "k='v'",
];

pub(crate) const CONTENT: &[&str] = &[
    "text",
    " ",
    "\n  ",
    "&#32;",
    "&lt;&amp;",
    "&e;",
    "&m;",
    "&b;",
    "<![CDATA[ <c> ]]>",
    "<![CDATA[ ]]>",
    "<![CDATA[]]>",
    "<!--note--->",
    "<!--note-->",
    "<?p data?>",
    "<?q?>",
    "\r\n",
    "é€😀",
    "]]&gt;",
];

/// Returns whether a piece begins an element.
pub(crate) fn is_tag(piece: &str) -> bool {
    piece.as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic)
}
