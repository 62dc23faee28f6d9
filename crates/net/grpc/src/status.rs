//! The status of a call: `grpc-status` and `grpc-message`.

macro_rules! statuses {
    ($($status:ident = $code:literal $name:literal;)*) => {
        /// The status of a call, with the numbers of the specification.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Status { $($status = $code),* }

        impl Status {
            /// All statuses, in the order of their numbers.
            pub const ALL: [Status; 17] = [$(Status::$status),*];

            /// Returns the name in the configuration.
            pub const fn name(self) -> &'static str { match self { $(Status::$status => $name),* } }

            /// Returns the number as text: the value of `grpc-status`.
            pub const fn code(self) -> &'static str { match self { $(Status::$status => stringify!($code)),* } }
        }
    };
}

statuses! {
    Ok = 0 "ok";
    Cancelled = 1 "cancelled";
    Unknown = 2 "unknown";
    InvalidArgument = 3 "invalid_argument";
    DeadlineExceeded = 4 "deadline_exceeded";
    NotFound = 5 "not_found";
    AlreadyExists = 6 "already_exists";
    PermissionDenied = 7 "permission_denied";
    ResourceExhausted = 8 "resource_exhausted";
    FailedPrecondition = 9 "failed_precondition";
    Aborted = 10 "aborted";
    OutOfRange = 11 "out_of_range";
    Unimplemented = 12 "unimplemented";
    Internal = 13 "internal";
    Unavailable = 14 "unavailable";
    DataLoss = 15 "data_loss";
    Unauthenticated = 16 "unauthenticated";
}

/// The reported result of a call. Services may also report numbers that are not in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Status(Status),
    /// A number that is not in the specification, or a text that is not a number.
    Other,
}

impl Status {
    /// Returns the status that clients assume for a reply without `grpc-status` whose HTTP status is not 200 (gRPC, "HTTP to gRPC Status
    /// Code Mapping").
    pub const fn of_http(status: u16) -> Status {
        match status {
            400 => Status::Internal,
            401 => Status::Unauthenticated,
            403 => Status::PermissionDenied,
            404 => Status::Unimplemented,
            429 | 502 | 503 | 504 => Status::Unavailable,
            _ => Status::Unknown,
        }
    }

    /// Returns the corresponding HTTP status (`google.rpc.Code`). A result of 500 or more means that the service failed.
    pub const fn to_http(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::InvalidArgument | Status::FailedPrecondition | Status::OutOfRange => 400,
            Status::Unauthenticated => 401,
            Status::PermissionDenied => 403,
            Status::NotFound => 404,
            Status::AlreadyExists | Status::Aborted => 409,
            Status::ResourceExhausted => 429,
            Status::Cancelled => 499,
            Status::Unknown | Status::Internal | Status::DataLoss => 500,
            Status::Unimplemented => 501,
            Status::Unavailable => 503,
            Status::DeadlineExceeded => 504,
        }
    }
}

impl Outcome {
    /// The number of outcomes.
    pub const COUNT: usize = Status::ALL.len() + 1;

    /// Returns the outcome for a value of `grpc-status`.
    pub fn of(value: &[u8]) -> Outcome {
        let named = Status::ALL.into_iter().find(|status| status.code().as_bytes() == value);
        named.map_or(Outcome::Other, Outcome::Status)
    }

    /// Returns the first `grpc-status` among trailer lines (`Name: value\r\n...`).
    pub fn in_trailers(trailers: &[u8]) -> Option<Outcome> {
        trailer(trailers, "grpc-status").map(Outcome::of)
    }

    /// Returns the outcome with this index, for loops over all outcomes. It is the inverse of [`Outcome::index`].
    pub fn at(index: usize) -> Outcome {
        Status::ALL.get(index).copied().map_or(Outcome::Other, Outcome::Status)
    }

    /// Returns the index among all outcomes. The last one is `Other`.
    pub const fn index(self) -> usize {
        match self {
            Outcome::Status(status) => status as usize,
            Outcome::Other => Status::ALL.len(),
        }
    }

    /// Returns the label in metrics and the access log: the number, or `other`.
    pub const fn label(self) -> &'static str {
        match self {
            Outcome::Status(status) => status.code(),
            Outcome::Other => "other",
        }
    }
}

/// Encodes a text as the value of `grpc-message`: visible ASCII and spaces are kept, and everything else becomes `%` and two hex digits.
pub fn encode_message(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => kit::percent::push(&mut out, byte),
        }
    }
    out
}

/// Returns the value of the first line with this name among trailer lines (`Name: value\r\n...`).
pub fn trailer<'t>(trailers: &'t [u8], name: &str) -> Option<&'t [u8]> {
    trailers.split(|byte| *byte == b'\n').find_map(|line| {
        let (front, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?.trim_ascii();
        front.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_status_and_all_else_is_other() {
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, index);
            assert_eq!(status.code(), index.to_string());
            assert_eq!(Outcome::of(index.to_string().as_bytes()), Outcome::Status(status));
            assert_eq!(Outcome::at(index).index(), index);
        }
        for other in ["17", "-1", "00", "", " 0", "4294967296", "ok"] {
            assert_eq!(Outcome::of(other.as_bytes()), Outcome::Other, "{other}");
        }
        assert_eq!(Outcome::Other.index() + 1, Outcome::COUNT);
        assert_eq!(Outcome::at(Outcome::COUNT), Outcome::Other);
    }

    #[test]
    fn the_first_status_among_the_trailers_counts() {
        let trailers = b"grpc-statuses: 1\r\nGrpc-Status:  14 \r\ngrpc-status: 0\r\n";
        assert_eq!(Outcome::in_trailers(trailers), Some(Outcome::Status(Status::Unavailable)));
        assert_eq!(Outcome::in_trailers(b""), None);
    }

    #[test]
    fn an_encoded_message_is_a_valid_header_value() {
        for (text, written) in [
            ("Too many requests.", "Too many requests."),
            ("100 %\r\nx: y", "100 %25%0D%0Ax: y"),
            ("gr\u{fc}n \u{1f600}\u{7f}", "gr%C3%BCn %F0%9F%98%80%7F"),
        ] {
            assert_eq!(encode_message(text), written);
        }
    }
}
