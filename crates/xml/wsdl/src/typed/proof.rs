//! Round-trip proof of operations: a sample is translated to SOAP, validated against the schema, and translated back. The result must equal
//! the sample.

use super::model::Message;
use super::read::{ReadMessage, Reader};
use super::sample::{Variety, sample};
use super::typed_api::{Api, Operation};
use super::{RequestRefusal, judge};

/// Size limit, far larger than any sample.
const BYTES_MAX: usize = 64 << 20;

/// Identifies complaints about identity constraints. These relate several values, which samples cannot take into account.
const IDENTITY: &str = ": cvc-identity-constraint";

/// The result for one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    pub operation: String,
    /// Number of messages that passed the round trip.
    pub messages: usize,
    /// Messages that failed, with the reason.
    pub failures: Vec<String>,
    /// Messages for which there is no sample, with the reason.
    pub unproved: Vec<String>,
}

/// Proves every operation.
pub fn prove(api: &Api) -> Vec<Proof> {
    api.operations.iter().map(|operation| one(api, operation)).collect()
}

fn one(api: &Api, operation: &Operation) -> Proof {
    let mut proof = Proof {
        operation: operation.name.to_string(),
        messages: 0,
        failures: Vec::new(),
        unproved: Vec::new(),
    };
    let output = operation.output.as_ref().map(|output| ("reply", output));
    for (side, message) in std::iter::once(("request", &operation.input)).chain(output) {
        let mut unmade: Option<String> = None;
        let before = proof.messages;
        for variety in Variety::ALL {
            // Two items may violate an identity constraint, which the translation cannot know about. One item cannot.
            let tried = [2, 1].map(|items| {
                let json = sample(api, message, variety, items)?;
                Ok(there_and_back(api, operation, message, &json).map_err(|why| (why, json)))
            });
            match tried {
                [Err(why), _] | [_, Err(why)] => unmade = Some(why),
                [Ok(Ok(())), _] | [Ok(Err(_)), Ok(Ok(()))] => proof.messages += 1,
                [_, Ok(Err((why, _)))] if why.contains(IDENTITY) => {
                    unmade = Some("it repeats a value that the schema wants once".to_owned());
                }
                [_, Ok(Err((why, json)))] => {
                    proof.failures.push(format!("{side}, {variety:?}: {why}: {json}"));
                }
            }
        }
        if let (true, Some(why)) = (proof.messages == before, unmade) {
            proof.unproved.push(format!("{side}: there is no sample: {why}"));
        }
    }
    proof
}

fn there_and_back(
    api: &Api,
    operation: &Operation,
    message: &Message,
    json: &str,
) -> Result<(), String> {
    let envelope = api.envelope(message, json.as_bytes(), BYTES_MAX).map_err(|why| match why {
        RequestRefusal::Malformed { at, expected } => format!("at byte {at}: expected {expected}"),
        RequestRefusal::Mismatch(mismatch) => mismatch.to_string(),
    })?;
    judge::judge(api, message, envelope.as_bytes())
        .map_err(|why| format!("the schema refuses it: {why}: {envelope}"))?;
    let said = Reader::new(api, &operation.faults, Some(message), BYTES_MAX)
        .read(envelope.as_bytes())
        .map_err(|why| format!("it is not read back: {why}: {envelope}"))?;
    let back = match said {
        ReadMessage::Value(back) => back,
        ReadMessage::Nothing => "{}".to_owned(),
        ReadMessage::Fault(_) => return Err("it came back as a fault".to_owned()),
    };
    if back == json { Ok(()) } else { Err(format!("it came back as {back}")) }
}
