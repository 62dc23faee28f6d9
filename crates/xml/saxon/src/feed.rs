//! Binary encoding of a parsed document for the Java side, so that no text is parsed twice and no name is looked up twice.

/// Event codes; `Feed.java` has the same numbers.
const START: u8 = 1;
const END: u8 = 2;
const TEXT: u8 = 3;
const COMMENT: u8 = 4;
const INSTRUCTION: u8 = 5;
const NAMESPACE: u8 = 6;

/// Namespace number of names without a namespace.
const NONE: u32 = 0;

/// Encoder of a document. Numbers are base-128, lowest seven bits first. Texts are preceded by their length.
#[derive(Debug, Default, Clone)]
pub struct Feed {
    bytes: Vec<u8>,
    /// Numbers of the namespaces already sent, by the caller's id.
    numbers: Vec<u32>,
    /// Number of namespaces already sent.
    told: u32,
}

/// The name of an element or attribute; its namespace is a number returned by [`Feed::namespace`].
#[derive(Debug, Clone, Copy)]
pub struct Name<'a> {
    pub namespace: u32,
    pub prefix: &'a str,
    pub local: &'a str,
}

/// The range of a text in a feed, including its length prefix.
#[derive(Debug, Clone, Copy)]
pub struct TextRange {
    from: usize,
    to: usize,
}

impl Feed {
    /// Creates a feed for a document of about this many bytes.
    pub fn with_capacity(bytes: usize) -> Feed {
        Feed { bytes: Vec::with_capacity(bytes), ..Feed::default() }
    }

    /// Returns the number of a namespace, and sends the namespace if it is new. `id` is the caller's own id, small and dense. An empty URI
    /// means no namespace. Must be called before the start event that needs the number.
    pub fn namespace(&mut self, id: u32, uri: &str) -> u32 {
        if uri.is_empty() {
            return NONE;
        }
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        if let Some(number) = self.numbers.get(at).filter(|number| **number != NONE) {
            return *number;
        }
        self.bytes.push(NAMESPACE);
        self.text_bytes(uri);
        self.told += 1;
        if self.numbers.len() <= at {
            self.numbers.resize(at.saturating_add(1), NONE);
        }
        if let Some(number) = self.numbers.get_mut(at) {
            *number = self.told;
        }
        self.told
    }

    /// Starts an element. Afterwards come `declared` namespace declarations, then [`Feed::attributes`] and the attributes.
    pub fn start(&mut self, name: Name<'_>, declared: usize) {
        self.bytes.push(START);
        self.name(name);
        self.number(declared);
    }

    /// Writes one namespace declaration of the current element.
    pub fn declared(&mut self, prefix: &str, namespace: u32) {
        self.text_bytes(prefix);
        self.number(namespace as usize);
    }

    /// Writes the number of attributes, after the declarations.
    pub fn attributes(&mut self, count: usize) {
        self.number(count);
    }

    pub fn attribute(&mut self, name: Name<'_>, value: &str) {
        self.name(name);
        self.text_bytes(value);
    }

    pub fn end(&mut self) {
        self.bytes.push(END);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes.push(TEXT);
        self.text_bytes(text);
    }

    /// Returns the range of `text`, which must be the last text written.
    pub fn last(&self, text: &str) -> Option<TextRange> {
        let to = self.bytes.len();
        let length = bytes_of(text.len());
        Some(TextRange { from: to.checked_sub(text.len() + length)?, to })
    }

    /// Copies the document with different texts in these ranges, which must be in order.
    pub fn with_texts<'t>(&self, texts: impl Iterator<Item = (TextRange, &'t str)>) -> Feed {
        let mut feed = Feed::with_capacity(self.bytes.len() * 2);
        let mut at = 0;
        for (place, text) in texts {
            feed.bytes.extend_from_slice(self.bytes.get(at..place.from).unwrap_or_default());
            feed.text_bytes(text);
            at = place.to;
        }
        feed.bytes.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
        feed
    }

    pub fn comment(&mut self, text: &str) {
        self.bytes.push(COMMENT);
        self.text_bytes(text);
    }

    pub fn instruction(&mut self, target: &str, text: &str) {
        self.bytes.push(INSTRUCTION);
        self.text_bytes(target);
        self.text_bytes(text);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn name(&mut self, name: Name<'_>) {
        self.number(name.namespace as usize);
        self.text_bytes(name.prefix);
        self.text_bytes(name.local);
    }

    fn text_bytes(&mut self, text: &str) {
        self.number(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, mut number: usize) {
        loop {
            let low = u8::try_from(number & 0x7f).unwrap_or_default();
            number >>= 7;
            if number == 0 {
                self.bytes.push(low);
                return;
            }
            self.bytes.push(low | 0x80);
        }
    }
}

/// Returns the number of bytes in which a number is encoded.
fn bytes_of(number: usize) -> usize {
    let bits = usize::BITS - number.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

/// Encodes a request to compile: length-prefixed parts, as `Slot.compile` reads them.
pub(crate) fn parts(groups: [&[(String, Vec<u8>)]; 2]) -> Vec<u8> {
    let mut feed = Feed::default();
    for group in groups {
        feed.number(group.len());
        for (name, bytes) in group {
            feed.text_bytes(name);
            feed.number(bytes.len());
            feed.bytes.extend_from_slice(bytes);
        }
    }
    feed.bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        for (number, bytes) in
            [(0, &[0][..]), (127, &[127]), (128, &[0x80, 1]), (1 << 21, &[0x80, 0x80, 0x80, 1])]
        {
            let mut feed = Feed::default();
            feed.number(number);
            assert_eq!(feed.bytes, bytes, "{number}");
            assert_eq!(bytes_of(number), bytes.len());
        }
    }

    #[test]
    fn texts_are_replaced_with_their_lengths() {
        let told = |one: &str, other: &str| {
            let mut feed = Feed::default();
            feed.text(one);
            let first = feed.last(one).unwrap();
            feed.end();
            feed.text(other);
            (feed.clone(), [first, feed.last(other).unwrap()])
        };
        let long = "x".repeat(200);
        let (known, places) = told("1", "two");
        for (one, other) in [("", ""), ("3", "4"), (&*long, "4"), ("1", &*long)] {
            let filled = known.with_texts(places.into_iter().zip([one, other]));
            assert_eq!(filled.bytes, told(one, other).0.bytes);
        }
        let (known, places) = told(&long, "two");
        assert_eq!(
            known.with_texts(places.into_iter().zip(["1", "2"])).bytes,
            told("1", "2").0.bytes
        );
    }

    #[test]
    fn a_namespace_is_sent_once() {
        let mut feed = Feed::default();
        assert_eq!(feed.namespace(0, ""), 0);
        assert_eq!(feed.namespace(5, "u"), 1);
        assert_eq!(feed.namespace(2, "v"), 2);
        assert_eq!(feed.namespace(5, "u"), 1);
        assert_eq!(feed.bytes, [NAMESPACE, 1, b'u', NAMESPACE, 1, b'v']);
    }
}
