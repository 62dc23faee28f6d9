//! Documents in every supported encoding.

use crate::record::{chunked, internal, whole};

const TEXT: &str = "<?xml version='1.0'ENCODING?>\n<é a='ß'>x&#233;\r\n<b/></é>";

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

/// Lines and columns do not depend on the encoding.
#[test]
fn encodings_tell_the_same() {
    let with = |label: &str| TEXT.replace("ENCODING", label);
    let told = whole(with("").as_bytes(), &internal());
    assert!(told.ends_with("3:5 end é\n"), "{told}");
    let latin1 = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let marked = |mark: &[u8], bytes: Vec<u8>| [mark, &bytes].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("utf-8", with(" encoding='UTF-8'").into_bytes()),
        ("utf-8, marked", marked(b"\xEF\xBB\xBF", with(" encoding=\"utf-8\"").into_bytes())),
        ("latin 1", latin1(&with(" encoding='ISO-8859-1'"))),
        ("utf-16le", utf16(&with(""), u16::to_le_bytes)),
        ("utf-16be", utf16(&with(" encoding='UTF-16'"), u16::to_be_bytes)),
        (
            "utf-16le, marked",
            marked(b"\xFF\xFE", utf16(&with(" encoding='utf-16'"), u16::to_le_bytes)),
        ),
        ("utf-16be, marked", marked(b"\xFE\xFF", utf16(&with(""), u16::to_be_bytes))),
    ];
    for (name, bytes) in cases {
        let columns = |told: &str| told.replace(" encoding", "");
        assert_eq!(columns(&whole(&bytes, &internal())), told, "{name}");
        for len in [1, 2, 3, 7, 4096] {
            assert_eq!(
                chunked(bytes.chunks(len), &internal()),
                told,
                "{name}, {len} bytes a chunk"
            );
        }
    }
}

#[test]
fn small_documents_are_accepted() {
    for document in [
        "<a/>",
        "<a></a >",
        "<a\n/>",
        "<a b = 'c' d=\"'>\" />",
        "<a>]]</a>",
        "<a>]>]</a>",
        "<a><![CDATA[]]></a>",
        "<a><![CDATA[]]]]></a>",
        "<?xml version=\"1.9\" encoding=\"UTF-8\" standalone=\"no\" ?><a/>",
        "<?xml-x ?><a/>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a SYSTEM 'x' []><a/>",
        "<!DOCTYPE a PUBLIC 'x' \"y\" ><a/>\n<!-- -->\n",
        "<xml:a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns='' xmlns:xmlnsx='b'/>",
        "<a xmlnsx='b' xmlns:c='d' c:xmlns='e'/>",
        "<a>\u{7F}\u{85}\u{FFFD}\u{10FFFF}&#x10FFFF;</a>",
    ] {
        let told = whole(document.as_bytes(), &internal());
        assert!(!told.contains("(offset"), "{document}: {told}");
        assert_eq!(chunked(document.as_bytes().chunks(1), &internal()), told);
    }
}
