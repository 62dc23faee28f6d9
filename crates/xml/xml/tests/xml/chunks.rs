//! A document in chunks gives the same events as in one piece.

use proptest::collection::vec;
use proptest::prelude::*;
use xml::{Error, Here, Options, Parser, QName, Sink, Start};

use crate::record::{chunked, internal, whole};

/// Pieces of valid and invalid documents. The result must never depend on the chunks.
const PIECES: &[&str] = &[
    "<a>",
    "</a>",
    "<b c='d'>",
    "</b>",
    "<e/>",
    "text",
    "]]",
    "]",
    ">",
    "\r",
    "\n",
    "\r\n",
    "&lt;",
    "&#x41;",
    "&",
    ";",
    "<!--",
    "-->",
    "--",
    "<![CDATA[",
    "]]>",
    "<?p q?>",
    "?>",
    "é",
    "😀",
    "\u{1}",
    "\"",
    "'",
    "=",
    " ",
    "<p:f xmlns:p='u' p:g='h&amp;'>",
    "</p:f>",
    "&x;",
    "&y;",
    "xmlns='v'",
    "<",
    "</",
    "<b ",
    " c=\"",
    "<!DOCTYPE a>",
];

const SUBSETS: &[&str] = &[
    "",
    "<!DOCTYPE a [<!ENTITY x '1<b>2</b>'><!ENTITY y '&x;&x;'><!ATTLIST b z CDATA 'é'>]>",
    "<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY % p '<!ENTITY x \"3\">'>\r\n%p;<!-- c -->]>\r\n",
    "\u{FEFF}<!DOCTYPE a [<!ENTITY x 'unclosed<b>'",
];

pub(crate) fn documents() -> impl Strategy<Value = String> {
    let pieces = vec(prop::sample::select(PIECES), 0..30);
    (prop::sample::select(SUBSETS), pieces, any::<bool>()).prop_map(|(subset, pieces, wrapped)| {
        let inside = pieces.concat();
        if wrapped { format!("{subset}<a>{inside}</a>") } else { format!("{subset}{inside}") }
    })
}

fn cut<'b>(mut bytes: &'b [u8], lens: &[usize]) -> Vec<&'b [u8]> {
    let mut chunks = Vec::new();
    for len in lens.iter().cycle() {
        if bytes.is_empty() || lens.iter().all(|len| *len == 0) {
            break;
        }
        let (chunk, rest) = bytes.split_at((*len).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks.push(bytes);
    chunks
}

/// Nested elements, each with a few of twelve prefixes bound to a few of twelve names.
pub(crate) fn declaring() -> impl Strategy<Value = String> {
    let names = (0u8..12, 0u8..12).prop_map(|(prefix, uri)| format!(" xmlns:p{prefix}='u{uri}'"));
    vec((vec(names, 0..4), 0u8..12), 1..8).prop_map(|tags| {
        let open = tags.iter().map(|(names, used)| format!("<p{used}:a{}>", names.concat()));
        let close = tags.iter().rev().map(|(_, used)| format!("</p{used}:a>"));
        format!("<a xmlns:p0='u0'>{}{}</a>", open.collect::<String>(), close.collect::<String>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_one_document_declared_is_nothing_to_the_next(documents in vec(declaring(), 2..6)) {
        for document in documents.iter().chain(&documents) {
            let bytes = document.as_bytes();
            let by_a_new_parser = chunked(std::iter::once(bytes), &internal());
            prop_assert_eq!(whole(bytes, &internal()), by_a_new_parser);
        }
    }

    #[test]
    fn chunks_do_not_matter(document in documents(), lens in vec(0usize..20, 1..5), cut_at in any::<prop::sample::Index>()) {
        let bytes = document.as_bytes();
        let whole_told = whole(bytes, &internal());
        prop_assert_eq!(&chunked(cut(bytes, &lens).into_iter(), &internal()), &whole_told);
        prop_assert_eq!(&chunked(bytes.chunks(1), &internal()), &whole_told);
        let part = &bytes[..cut_at.index(bytes.len() + 1)];
        prop_assert_eq!(chunked(part.chunks(3), &internal()), whole(part, &internal()));
    }

    #[test]
    fn budgets_do_not_depend_on_chunks(document in documents(), which in 0usize..10, max in 0u32..40, len in 1usize..9) {
        let mut options = internal();
        let limits = &mut options.limits;
        match which {
            0 => limits.bytes_max = u64::from(max),
            1 => limits.depth_max = max,
            2 => limits.attributes_max = max,
            3 => limits.name_bytes_max = max,
            4 => limits.attribute_bytes_max = max,
            5 => limits.token_bytes_max = max,
            6 => limits.tokens_max = u64::from(max),
            7 => limits.namespaces_max = max,
            8 => limits.expansion_bytes_max = u64::from(max),
            _ => limits.declarations_max = max,
        }
        let bytes = document.as_bytes();
        prop_assert_eq!(chunked(bytes.chunks(len), &options), whole(bytes, &options));
    }

    #[test]
    fn any_bytes_end_the_same(bytes in vec(prop::sample::select(&b"<>/a=' \"&;#x![]-?\xFF\xC3\xA4\0%"[..]), 0..60), len in 1usize..9) {
        prop_assert_eq!(chunked(bytes.chunks(len), &internal()), whole(&bytes, &internal()));
    }
}

#[test]
fn a_small_budget_of_tokens_does_not_depend_on_chunks() {
    let documents = [
        "<a>x]]y]]] \r\n\r]\r</a>",
        "<a><![CDATA[]]]]]>]]><b/>é😀&amp;]]</a>",
        "<a>&#65;<b c='d'/><!-- e --><?f g?></a>",
        "<!DOCTYPE a [<!ENTITY x 'y<b>]]</b>'>]><a>&x;]&x;</a>",
    ];
    let mut accepted = 0;
    for document in documents {
        for max in 0..48 {
            let mut options = internal();
            options.limits.token_bytes_max = max;
            let told = whole(document.as_bytes(), &options);
            accepted += usize::from(told == whole(document.as_bytes(), &internal()));
            for len in 1..9 {
                let chunks = document.as_bytes().chunks(len);
                assert_eq!(chunked(chunks, &options), told, "{document:?}, {max}, {len}");
            }
        }
    }
    assert!(accepted > 48, "most budgets are enough");
}

/// A sink that counts events and keeps nothing.
#[derive(Default)]
struct Count {
    events: u64,
}

impl Sink for Count {
    type Error = Error;

    fn start(&mut self, _: &Start<'_>, _: Here<'_>) -> Result<(), Error> {
        self.events += 1;
        Ok(())
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn after_the_end_there_is_no_more() {
    let mut parser = Parser::new(Options::default());
    let mut count = Count::default();
    parser.feed(b"<a/>", &mut count).unwrap();
    parser.finish(&mut count).unwrap();
    assert!(parser.feed(b"<a/>", &mut count).is_err());
    parser.reset();
    parser.feed(b"<a>", &mut count).unwrap();
    let error = parser.feed(b"</b>", &mut count).unwrap_err();
    assert_eq!(parser.finish(&mut count).unwrap_err(), error);
    parser.parse(b"<a/>", &mut count).unwrap();
    assert_eq!(count.events, 3);
}
