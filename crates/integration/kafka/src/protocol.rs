//! The requests of the Kafka protocol, in the supported versions.

use kafka_protocol::error::{ParseResponseErrorCode as _, ResponseError};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    FetchRequest, FetchResponse, InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use store::Error;

use crate::shape::{self, Shape};

/// A request, with its key, version and bounds.
pub(crate) trait ProtocolRequest: Encodable + HeaderVersion {
    const KEY: ApiKey;
    /// The newest version that the gateway supports. Later versions identify topics by ids, or add fields that are not needed.
    const NEWEST: i16;
    /// The shape of its response, which is checked before the response is decoded.
    const SHAPE: Shape;
    /// The maximum size of the response.
    const ANSWER_BYTES_MAX: usize;
    type Answer: Decodable + HeaderVersion;
}

/// The maximum size of a response without records. The largest of them, the metadata of a topic, has some kilobytes.
const SMALL: usize = 4 << 20;
/// No bound except that of the connection, for responses with records.
const LARGE: usize = usize::MAX;

macro_rules! requests {
    ($($key:ident($request:ident -> $answer:ident, $newest:literal, $shape:ident, $bytes:ident);)*) => {
        $(impl ProtocolRequest for $request {
            const KEY: ApiKey = ApiKey::$key;
            const NEWEST: i16 = $newest;
            const SHAPE: Shape = shape::$shape;
            const ANSWER_BYTES_MAX: usize = $bytes;
            type Answer = $answer;
        })*
    };
}

requests! {
    ApiVersions(ApiVersionsRequest -> ApiVersionsResponse, 0, API_VERSIONS, SMALL);
    SaslHandshake(SaslHandshakeRequest -> SaslHandshakeResponse, 1, SASL_HANDSHAKE, SMALL);
    SaslAuthenticate(SaslAuthenticateRequest -> SaslAuthenticateResponse, 2, SASL_AUTHENTICATE, SMALL);
    Metadata(MetadataRequest -> MetadataResponse, 9, METADATA, SMALL);
    CreateTopics(CreateTopicsRequest -> CreateTopicsResponse, 7, CREATE_TOPICS, SMALL);
    InitProducerId(InitProducerIdRequest -> InitProducerIdResponse, 4, INIT_PRODUCER_ID, SMALL);
    Produce(ProduceRequest -> ProduceResponse, 9, PRODUCE, SMALL);
    ListOffsets(ListOffsetsRequest -> ListOffsetsResponse, 7, LIST_OFFSETS, SMALL);
    Fetch(FetchRequest -> FetchResponse, 12, FETCH, LARGE);
}

/// The reason why a request failed.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// No broker of the cluster answers. Nothing was sent.
    NoBroker(String),
    /// This broker does not answer. Nothing was sent.
    Unreached(String),
    /// The connection ended, or the timeout passed, before the answer arrived.
    Lost(String),
    /// The broker returned an error code.
    Code(ResponseError),
    /// The request cannot succeed, and a retry would not help.
    Refused(String),
}

impl Failure {
    /// Converts a failure to the error for callers of the store.
    pub(crate) fn into_error(self, topic: &str) -> Error {
        Error::Unavailable(match self {
            Failure::NoBroker(why) => format!("no broker of Kafka answers: {why}"),
            Failure::Unreached(why) | Failure::Lost(why) => format!("Kafka: {why}"),
            Failure::Code(code) => format!("Kafka refuses the topic {topic}: {code}"),
            Failure::Refused(why) => why,
        })
    }

    /// Returns true if the topic may have a new leader, now or soon.
    pub(crate) fn may_have_new_leader(&self) -> bool {
        match self {
            Failure::Unreached(_) | Failure::Lost(_) => true,
            Failure::NoBroker(_) | Failure::Refused(_) => false,
            Failure::Code(code) => matches!(
                code,
                ResponseError::UnknownTopicOrPartition
                    | ResponseError::LeaderNotAvailable
                    | ResponseError::NotLeaderOrFollower
                    | ResponseError::RequestTimedOut
                    | ResponseError::BrokerNotAvailable
                    | ResponseError::ReplicaNotAvailable
                    | ResponseError::NetworkException
                    | ResponseError::CoordinatorLoadInProgress
                    | ResponseError::NotEnoughReplicas
                    | ResponseError::NotEnoughReplicasAfterAppend
                    | ResponseError::KafkaStorageError
                    | ResponseError::FencedLeaderEpoch
                    | ResponseError::UnknownLeaderEpoch
                    | ResponseError::OffsetNotAvailable
            ),
        }
    }
}

/// Converts an error code to a failure.
pub(crate) fn check(code: i16) -> Result<(), Failure> {
    match code.err() {
        None => Ok(()),
        Some(error) => Err(Failure::Code(error)),
    }
}

/// Converts a topic name to the library's type.
pub(crate) fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// Returns the failure for a response that cannot be parsed.
pub(crate) fn invalid_answer() -> Failure {
    Failure::Lost("an answer that cannot be read".to_owned())
}
