//! Parses a message for Saxon with our own parser, which records its events as a feed. Saxon thus gets the same documents as our XSLT
//! engine: the limits are the same, and a document type declaration is an error.

use saxon::{Feed, Name, TextRange};
use xml::{Error, Here, Pool, QName, Recall, Sink, Start, TemplateCache};

/// Expected size of a feed as a multiple of the document's size.
const GROWTH: usize = 2;

/// Templates of messages that were parsed earlier.
pub(super) type FeedCache = TemplateCache<Feed, Feed, TextRange>;

/// Parses a document.
pub(super) fn feed(message: &[u8], caches: &Pool<FeedCache>) -> Result<Feed, Error> {
    let mut sink = FeedSink { feed: Feed::with_capacity(message.len().saturating_mul(GROWTH)) };
    // Harmless: if the pool is empty, a new cache is used.
    let mut known = caches.take().unwrap_or_default();
    let parsed = known.parse(message, &xml::Options::default(), &mut sink);
    caches.give(known);
    parsed.map(|()| sink.feed)
}

struct FeedSink {
    feed: Feed,
}

impl FeedSink {
    fn name<'a>(&mut self, name: QName<'a>) -> Name<'a> {
        let namespace = self.feed.namespace(name.namespace.id, name.namespace.uri);
        Name { namespace, prefix: name.prefix, local: name.local }
    }
}

impl Sink for FeedSink {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), Error> {
        let meant = |prefix| start.scope.lookup(prefix).unwrap_or(start.name.namespace);
        // Namespaces are passed before the element that declares them.
        let mut declared = 0;
        for (prefix, uri) in start.scope.declared() {
            declared += 1;
            if !uri.is_empty() {
                self.feed.namespace(meant(prefix).id, uri);
            }
        }
        for attribute in start.attributes.iter() {
            self.name(attribute.name);
        }
        let name = self.name(start.name);
        self.feed.start(name, declared);
        for (prefix, uri) in start.scope.declared() {
            let number =
                if uri.is_empty() { 0 } else { self.feed.namespace(meant(prefix).id, uri) };
            self.feed.declared(prefix, number);
        }
        self.feed.attributes(start.attributes.len());
        for attribute in start.attributes.iter() {
            let name = self.name(attribute.name);
            self.feed.attribute(name, attribute.value);
        }
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        self.feed.text(text);
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), Error> {
        self.feed.end();
        Ok(())
    }

    fn comment(&mut self, text: &str, _: Here<'_>) -> Result<(), Error> {
        self.feed.comment(text);
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, _: Here<'_>) -> Result<(), Error> {
        self.feed.instruction(target, data);
        Ok(())
    }
}

impl Recall for FeedSink {
    type Memory = Feed;
    type DocumentState = Feed;
    type Gap = TextRange;

    fn remember(&self) -> Option<Feed> {
        Some(self.feed.clone())
    }

    fn resume(&mut self, memory: &Feed) {
        self.feed.clone_from(memory);
    }

    fn gap(&self, text: &str) -> Option<TextRange> {
        self.feed.last(text)
    }

    fn whole(&mut self) -> Option<Feed> {
        Some(self.feed.clone())
    }

    fn fill<'t, T: Iterator<Item = (&'t TextRange, &'t str)>>(
        &mut self,
        whole: &Feed,
        texts: T,
    ) -> bool {
        self.feed = whole.with_texts(texts.map(|(place, text)| (*place, text)));
        true
    }
}
