//! The status of a call: read from trailers or a head, and written as HTTP.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use fault::{Fault, Kind};
use grpc::{Outcome, Status};
use message::{Headers, Names, Trailers};
use protobuf::{StatusParts, Transcoder};

/// Values of headers whose names end with `-bin` may have padding or not.
const BINARY: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The status of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallStatus {
    code: i32,
    message: String,
    details: Option<Vec<u8>>,
}

/// Lines that the translated reply does not have: the status, and what described the messages of gRPC.
pub(super) const OF_CALL: Names<7> = Names::new(
    [
        "content-type",
        "grpc-status",
        "grpc-message",
        "grpc-status-details-bin",
        "grpc-encoding",
        "grpc-accept-encoding",
        "trailer",
    ],
    "content-type\ngrpc-status\ngrpc-message\ngrpc-status-details-bin\ngrpc-encoding\ngrpc-accept-encoding\ntrailer",
);

impl CallStatus {
    /// Returns the status in a head that is also the trailers.
    pub(super) fn in_head(headers: &Headers) -> Option<CallStatus> {
        CallStatus::of(headers.get("grpc-status")?, |name| headers.get(name))
    }

    /// Takes the status out of trailers. Other lines stay.
    pub(super) fn take(trailers: &mut Trailers) -> Option<CallStatus> {
        let find = |name: &str| grpc::trailer(trailers, name);
        let status = CallStatus::of(find("grpc-status")?, find);
        let is_own = |line: &[u8]| {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            OF_CALL.each().iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
        };
        let lines = trailers.split_inclusive(|byte| *byte == b'\n');
        *trailers = lines.filter(|line| !is_own(line)).collect::<Vec<_>>().concat();
        status
    }

    fn of<'l>(code: &[u8], find: impl Fn(&str) -> Option<&'l [u8]>) -> Option<CallStatus> {
        // Harmless: a value that is not a number is not a status.
        let code = std::str::from_utf8(code).ok()?.parse().ok()?;
        let message = find("grpc-message").map(|text| kit::percent::decoded(text, false));
        // Harmless: the message is for people.
        let message = message.map(|text| String::from_utf8_lossy(&text).into_owned());
        // Harmless: details are additional.
        let details = find("grpc-status-details-bin").and_then(|text| BINARY.decode(text).ok());
        // Harmless: a status may have no message.
        Some(CallStatus { code, message: message.unwrap_or_default(), details })
    }

    pub(super) fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// Returns the HTTP status (`google.rpc.Code`).
    pub(super) fn http(&self) -> u16 {
        match usize::try_from(self.code).map_or(Outcome::Other, Outcome::at) {
            Outcome::Status(status) => status.to_http(),
            Outcome::Other => Status::Unknown.to_http(),
        }
    }

    pub(super) fn json(&self, transcoder: &Transcoder) -> String {
        transcoder.status(&StatusParts {
            code: self.code,
            message: &self.message,
            details: self.details.as_deref(),
        })
    }
}

/// Returns the fault for a reply without a status.
#[cold]
pub(super) fn missing() -> Fault {
    Fault::new(Kind::ReplyInvalid, "the reply to the call has no `grpc-status`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_taken_out_of_trailers() {
        let mut trailers =
            b"Grpc-Status: 5\r\nx-a: b\r\ngrpc-message: no%20%C3%A9\r\ngrpc-status-details-bin: CAU\r\n"
                .to_vec();
        let status = CallStatus::take(&mut trailers).unwrap();
        assert_eq!((status.code, status.http(), &*status.message), (5, 404, "no \u{e9}"));
        assert_eq!(status.details.as_deref(), Some(&[8, 5][..]));
        assert_eq!(trailers, b"x-a: b\r\n");
    }

    #[test]
    fn numbers_become_statuses_of_http() {
        for (code, http) in [
            ("0", 200),
            ("1", 499),
            ("2", 500),
            ("3", 400),
            ("4", 504),
            ("5", 404),
            ("6", 409),
            ("7", 403),
            ("8", 429),
            ("9", 400),
            ("10", 409),
            ("11", 400),
            ("12", 501),
            ("13", 500),
            ("14", 503),
            ("15", 500),
            ("16", 401),
            ("17", 500),
            ("-1", 500),
        ] {
            let mut trailers = format!("grpc-status: {code}\r\n").into_bytes();
            assert_eq!(CallStatus::take(&mut trailers).unwrap().http(), http, "{code}");
        }
        for wrong in ["", "x-grpc-status: 1\r\n", "grpc-status: x\r\n", "grpc-status-x: 1\r\n"] {
            assert_eq!(CallStatus::take(&mut wrong.as_bytes().to_vec()), None, "{wrong}");
        }
    }
}
