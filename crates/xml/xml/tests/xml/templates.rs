//! A document whose markup is known gives the same result as a parsed one.

use proptest::collection::vec;
use proptest::prelude::*;
use xml::{Error, Here, Options, QName, Recall, Sink, Start, TemplateCache};

use crate::chunks::{declaring, documents};
use crate::record::internal;

/// The events of a document, without positions.
#[derive(Default, Clone, PartialEq, Debug)]
struct Outline {
    events: Vec<String>,
    /// Whether the last event is a text that may continue.
    open: bool,
    filled: bool,
}

impl Outline {
    fn other(&mut self, event: String) {
        self.open = false;
        self.events.push(event);
    }
}

impl Sink for Outline {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), Error> {
        self.other(format!("{start:?}"));
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        match self.events.last_mut().filter(|_| self.open) {
            Some(before) => before.push_str(text),
            None => self.events.push(text.to_owned()),
        }
        self.open = true;
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, _: Here<'_>) -> Result<(), Error> {
        self.other(format!("/{name:?}"));
        Ok(())
    }

    fn comment(&mut self, text: &str, _: Here<'_>) -> Result<(), Error> {
        self.other(format!("!{text}"));
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, _: Here<'_>) -> Result<(), Error> {
        self.other(format!("?{target} {data}"));
        Ok(())
    }
}

impl Recall for Outline {
    type Memory = Outline;
    type DocumentState = Outline;
    /// The index of the event.
    type Gap = usize;

    fn remember(&self) -> Option<Outline> {
        Some(self.clone())
    }

    fn resume(&mut self, memory: &Outline) {
        self.clone_from(memory);
    }

    fn gap(&self, text: &str) -> Option<usize> {
        assert_eq!(self.events.last().unwrap(), text);
        (text != "fixed").then(|| self.events.len() - 1)
    }

    fn whole(&mut self) -> Option<Outline> {
        Some(self.clone())
    }

    fn fill<'t, T>(&mut self, whole: &Outline, mut texts: T) -> bool
    where
        T: Iterator<Item = (&'t usize, &'t str)> + Clone,
    {
        if texts.clone().any(|(_, text)| text == "refused") {
            return false;
        }
        let mut filled = Outline { filled: true, ..whole.clone() };
        texts.all(|(at, text)| {
            text.clone_into(&mut filled.events[*at]);
            true
        });
        *self = filled;
        true
    }
}

/// Parses documents of one kind and returns for each whether its markup was known.
fn read(documents: &[impl AsRef<[u8]>], options: &Options) -> Vec<bool> {
    let mut template_cache = TemplateCache::default();
    let each = documents.iter().map(|document| {
        let document = document.as_ref();
        let mut plain = Outline::default();
        let ended = xml::parse(document, options, &mut plain);
        let mut outline = Outline::default();
        assert_eq!(template_cache.parse(document, options, &mut outline), ended);
        let known = outline.filled;
        assert!(!known || ended.is_ok());
        if ended.is_ok() {
            let found = Outline { filled: false, ..outline };
            assert_eq!(found.events, plain.events, "{}", String::from_utf8_lossy(document));
        }
        known
    });
    each.collect()
}

const KNOWN: &str =
    "<?xml version='1.0'?><e xmlns='u'><!-- x --> <b><n a='&lt;'>1</n><m>a b</m></b></e>";

/// Returns, for each document, whether it was found in the cache after a similar one was parsed.
fn known(others: &[String]) -> Vec<bool> {
    let one = |other: &String| {
        let documents = [KNOWN, KNOWN, other, KNOWN];
        let [false, true, known, true] = read(&documents, &Options::default())[..] else {
            panic!("{other}")
        };
        known
    };
    others.iter().map(one).collect()
}

#[test]
fn other_values_are_known() {
    let values = ["2", " 1 ", "\n-\t", "]]", "/'\"=;", "é€\u{10FFFF}", "a\u{E000}", "\u{7F}"];
    let others: Vec<String> =
        values.iter().map(|value| KNOWN.replace(">1<", &format!(">{value}<"))).collect();
    assert_eq!(known(&others), [true; 8]);
}

#[test]
fn what_is_more_than_a_text_is_read() {
    let values = [
        "",
        " ",
        "\n\t",
        "&lt;",
        "1&#x41;",
        "1]]>",
        ">",
        "1\r",
        "\u{1}",
        "1\u{FFFE}",
        "<x/>",
        "1<!---->",
        "<![CDATA[1]]>",
        "refused",
        "é&",
        "é>",
        "é\r",
        "é\u{FFFF}",
    ];
    let others: Vec<String> =
        values.iter().map(|value| KNOWN.replace(">1<", &format!(">{value}<"))).collect();
    assert_eq!(known(&others), [false; 18]);
}

#[test]
fn other_markup_is_read() {
    let others = [
        KNOWN.replace("'u'", "'v'"),
        KNOWN.replace("&lt;", "&gt;"),
        KNOWN.replace(" x ", " y "),
        KNOWN.replace("</e>", "</e> "),
        KNOWN.replace("</e>", ""),
        KNOWN.replace("<m>a b</m>", "<m/>"),
        KNOWN.replace("<m>a b</m>", ""),
        KNOWN.replace("<m>a b</m>", "<m>a b</m><m>c</m>"),
        KNOWN.replace("> <", ">  <"),
    ];
    assert_eq!(known(&others), [false; 9]);
}

#[test]
fn texts_that_are_no_gaps_stay_what_they_are() {
    for text in ["fixed", "&#x31;", "<![CDATA[1]]>", "1<!---->", "1<?p q?>2", "<x/>1", " ", "1\r\n"]
    {
        let document = format!("<a><b>{text}</b><c>8</c></a>");
        let same = document.replace('8', "9");
        let other = "<a><b>4</b><c>8</c></a>".to_owned();
        let documents = [&document, &same, &other, &same];
        assert_eq!(read(&documents, &internal()), [false, true, false, true], "{text}");
    }
}

#[test]
fn only_utf_8_is_known() {
    let latin: &[u8] = b"<?xml version='1.0' encoding='ISO-8859-1'?><a><b>1</b></a>";
    let other: &[u8] = b"<?xml version='1.0' encoding='ISO-8859-1'?><a><b>\xC3\xA9</b></a>";
    assert_eq!(read(&[latin, latin, other, other], &Options::default()), [false; 4]);
    let broken: &[u8] = b"<a><b>\xC3</b></a>";
    assert_eq!(read(&[b"<a><b>1</b></a>", broken], &Options::default()), [false; 2]);
    let utf_16: Vec<u8> = "<a><b>1</b></a>".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(read(&[&utf_16, &utf_16], &Options::default()), [false; 2]);
}

#[test]
fn budgets_hold_for_what_is_known() {
    let document = "<a><b>1</b></a>";
    let longer = document.replace('1', &"1".repeat(100));
    let mut tight = Options::default();
    tight.limits.bytes_max = 50;
    assert_eq!(read(&[document, &longer, document], &tight), [false, false, true]);
    let long = document.replace('1', &"1".repeat(4090));
    assert_eq!(read(&[document, &long, &long], &Options::default()), [false; 3]);
}

#[test]
fn only_so_many_are_known_and_what_is_new_gives_up() {
    let kind = |at: usize| format!("<a{at}><b>1</b></a{at}>");
    let five: Vec<String> = (0..5).chain(1..5).chain([0]).map(kind).collect();
    let known = read(&five, &Options::default());
    assert_eq!(known, [false, false, false, false, false, true, true, true, true, false]);
    // When the credit is used up, only some documents are learnt: the first of each four equal ones, and then the others are found.
    let many: Vec<String> = (0..1000).map(|at| kind(at / 4)).collect();
    let known = read(&many, &Options::default());
    assert!(known.chunks(4).all(|each| each == [false, true, true, true]));
    let new: Vec<String> =
        (0..200).map(kind).chain((0..600).map(|at| kind(1000 + at / 4))).collect();
    let known = read(&new, &Options::default());
    let (new, again) = known.split_at(200);
    assert!(!new.contains(&true));
    let given_up = again.iter().take_while(|known| !**known).count();
    assert!((1..300).contains(&given_up), "{given_up}");
    assert!(again[given_up..].iter().filter(|known| **known).count() > 200);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn known_markup_does_not_matter(
        documents in vec((prop_oneof![documents(), declaring()], any::<bool>()), 1..5),
        values in vec(prop_oneof!["[ -~é\r\n]{0,6}", "[a-z]{1,3}", "<[a-c]/?>"], 1..4),
        order in vec(any::<(prop::sample::Index, prop::sample::Index)>(), 4..24),
    ) {
        let filled = |(document, value): &(prop::sample::Index, prop::sample::Index)| {
            let (document, wrapped) = document.get(&documents);
            let value = value.get(&values);
            if *wrapped {
                format!("<o><v>{value}</v>{document}<w>{value}</w></o>")
            } else {
                document.replace("text", value)
            }
        };
        let documents: Vec<String> = order.iter().map(filled).collect();
        read(&documents, &internal());
    }
}
