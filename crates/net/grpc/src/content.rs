//! The content types that distinguish gRPC calls from other requests.

/// The encoding of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// gRPC over HTTP/2.
    Grpc,
    /// gRPC-Web: the trailers are in the body, after the messages.
    Web,
    /// gRPC-Web in Base64.
    WebText,
}

/// The content types, longest first.
const TYPES: [(&str, Dialect); 3] = [
    ("application/grpc-web-text", Dialect::WebText),
    ("application/grpc-web", Dialect::Web),
    ("application/grpc", Dialect::Grpc),
];

impl Dialect {
    /// Returns the dialect of a `Content-Type` and the text after the type's name: the format of messages, such as `+proto`, and
    /// parameters. Returns `None` for a type that is not gRPC's.
    pub fn of(content_type: &[u8]) -> Option<(Dialect, &[u8])> {
        // Most requests have another type. The first letter of the subtype rules out nearly all of them.
        if !matches!(content_type.get("application/".len()), Some(b'g' | b'G')) {
            return None;
        }
        TYPES.iter().find_map(|(name, dialect)| {
            let (front, rest) = content_type.split_at_checked(name.len())?;
            let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' '));
            (ends && front.eq_ignore_ascii_case(name.as_bytes())).then_some((*dialect, rest))
        })
    }

    /// Returns the content type without a format.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Grpc => "application/grpc",
            Dialect::Web => "application/grpc-web",
            Dialect::WebText => "application/grpc-web-text",
        }
    }

    /// Returns the content type of a reply without messages. gRPC-Web clients expect it with a format.
    pub const fn of_empty_reply(self) -> &'static str {
        match self {
            Dialect::Grpc => "application/grpc",
            Dialect::Web => "application/grpc-web+proto",
            Dialect::WebText => "application/grpc-web-text+proto",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised_by_their_content_type() {
        for (content_type, dialect, rest) in [
            ("application/grpc", Some(Dialect::Grpc), ""),
            ("application/grpc+proto", Some(Dialect::Grpc), "+proto"),
            ("Application/gRPC; charset=utf-8", Some(Dialect::Grpc), "; charset=utf-8"),
            ("application/grpc-web", Some(Dialect::Web), ""),
            ("application/grpc-web+json", Some(Dialect::Web), "+json"),
            ("application/grpc-web-text+proto", Some(Dialect::WebText), "+proto"),
            ("application/grpc-webs", None, ""),
            ("application/grpcx", None, ""),
            ("application/json", None, ""),
            ("", None, ""),
        ] {
            let read = Dialect::of(content_type.as_bytes());
            assert_eq!(read, dialect.map(|of| (of, rest.as_bytes())), "{content_type}");
        }
    }
}
