//! A document with a known prefix gives the same events as without the cache.

use proptest::collection::vec;
use proptest::prelude::*;
use xml::{Options, Recall, TemplateCache};

use crate::chunks::{declaring, documents};
use crate::record::{Record, finish, internal, whole};

impl Recall for Record {
    type Memory = Record;
    type DocumentState = ();
    type Gap = ();

    fn remember(&self) -> Option<Record> {
        Some(self.clone())
    }

    fn resume(&mut self, memory: &Record) {
        self.clone_from(memory);
        self.resumed = true;
    }

    // Positions depend on the texts before them.
    fn gap(&self, _text: &str) -> Option<()> {
        None
    }

    fn whole(&mut self) -> Option<()> {
        None
    }

    fn fill<'t, T: Iterator<Item = (&'t (), &'t str)>>(&mut self, _: &(), _: T) -> bool {
        false
    }
}

/// Parses documents of one kind and returns for each whether its prefix was known.
fn read(documents: &[&str], options: &Options) -> Vec<bool> {
    let mut template_cache = TemplateCache::default();
    let each = documents.iter().map(|document| {
        let mut record = Record::default();
        let parsed = template_cache.parse(document.as_bytes(), options, &mut record);
        let resumed = record.resumed;
        assert_eq!(finish(record, parsed), whole(document.as_bytes(), options), "{document}");
        resumed
    });
    each.collect()
}

const SOAP: &str = "<?xml version='1.0'?>\n<s:Envelope xmlns:s='urn:s' xmlns:x='urn:x'><s:Body>";

fn soap(operation: &str) -> String {
    format!("{SOAP}{operation}</s:Body></s:Envelope>")
}

#[test]
fn what_two_documents_begin_with_is_known_of_the_third() {
    let same = soap("<x:a>1</x:a>");
    let other = soap("<b xmlns='urn:s' x:c='d'><x:a/></b><s:e/>");
    let broken = soap("<x:a>\n<y:a/></x:a>");
    let half = format!("{SOAP}<x:a>");
    let documents = [&*same, &other, &broken, &same, &half, &other, "<a/>", "", &same];
    let known = [false, false, true, true, true, true, false, false, true];
    assert_eq!(read(&documents, &Options::default()), known);
}

#[test]
fn only_so_many_are_known() {
    let kinds: Vec<String> = (0..9).map(|i| format!("<a{i}><b><c/></b></a{i}>")).collect();
    let thrice: Vec<&str> = kinds.iter().flat_map(|kind| [&**kind; 3]).collect();
    assert!(read(&thrice, &Options::default()).chunks(3).all(|each| each == [false, false, true]));
    let in_turn: Vec<&str> =
        thrice.iter().copied().chain(kinds.iter().map(|kind| &**kind)).collect();
    let after = &read(&in_turn, &Options::default())[27..];
    assert_eq!(after, [false, false, false, false, false, true, true, true, true]);
}

#[test]
fn what_only_seems_to_be_a_prefix_is_not_one() {
    let long = format!("<a b='{}'><b><c/></b></a>", "x".repeat(3000));
    let documents = [
        "<a><b/><c/></a>",
        "<a>1</a>",
        "<a><b></b><c/></a>",
        "<a><b><!-- --><c/></b></a>",
        "<!-- <b><c> --><a><b><c/></b></a>",
        "<?p <b><c> ?><a><b><c/></b></a>",
        "<a><b><![CDATA[<c><d>]]></b></a>",
        "<!DOCTYPE a><a><b><c/></b></a>",
        "<!DOCTYPE a [<!ENTITY e '1'>]><a><b><c>&e;</c></b></a>",
        "\u{FEFF}<a><b><c/></b></a>",
        "<?xml version='1.0' encoding='ISO-8859-1'?><a><b><c/></b></a>",
        "<a><b>]]><c/></b></a>",
        "<a><b x=<c/></b></a>",
        &long,
    ];
    for document in documents {
        assert_eq!(read(&[document; 4], &internal()), [false; 4], "{document}");
    }
}

#[test]
fn budgets_hold_after_a_prefix() {
    let document = &*soap("<a xmlns:p='p' xmlns:q='q'><p:b>1</p:b><q:c>2</q:c></a>");
    let longer = document.replace(">1<", &format!(">{}<", "1".repeat(600)));
    let mut tight = Options::default();
    tight.limits.tokens_max = 6;
    assert_eq!(read(&[document; 4], &tight), [false, false, true, true]);
    let mut tight = Options::default();
    tight.limits.bytes_max = 300;
    assert_eq!(read(&[document, document, &longer, document], &tight), [false, false, true, true]);
    let mut tight = Options::default();
    tight.limits.namespaces_max = 5;
    assert_eq!(read(&[document; 3], &tight), [false, false, true]);
    let mut tight = Options::default();
    tight.limits.depth_max = 3;
    assert_eq!(read(&[document; 3], &tight), [false, false, true]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn known_prefixes_do_not_matter(
        documents in vec(prop_oneof![documents(), declaring(), documents().prop_map(|d| soap(&d))], 1..5),
        order in vec(any::<prop::sample::Index>(), 4..16),
    ) {
        let documents: Vec<&str> = order.iter().map(|at| &**at.get(&documents)).collect();
        read(&documents, &internal());
    }
}
