//! The messages that are exchanged, in the versions that are spoken.

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

/// A request, with what is known of it beside its fields.
pub(crate) trait ProtocolRequest: Encodable + HeaderVersion {
    const KEY: ApiKey;
    /// The newest version that is spoken here. Later ones name topics by ids, or add what is not needed.
    const NEWEST: i16;
    /// The shape of its answer, which is checked before that is decoded.
    const SHAPE: Shape;
    /// The largest answer.
    const ANSWER_BYTES_MAX: usize;
    type Answer: Decodable + HeaderVersion;
}

/// The largest answer to a question: one topic with its brokers has some kilobytes.
const SMALL: usize = 4 << 20;
/// The largest answer with records: the connection's.
const LARGE: usize = usize::MAX;

macro_rules! asks {
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

asks! {
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

/// Why a broker did not do what it was asked.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// No broker of the cluster answers. Nothing was sent.
    NoBroker(String),
    /// This broker does not answer. Nothing was sent.
    Unreached(String),
    /// The connection ended, or time was over, before the answer came.
    Lost(String),
    /// The broker says no, for a reason that has a number.
    Code(ResponseError),
    /// It cannot be done as things are.
    Refused(String),
}

impl Failure {
    /// The error for callers of the store.
    pub(crate) fn into_error(self, topic: &str) -> Error {
        Error::Away(match self {
            Failure::NoBroker(why) => format!("no broker of Kafka answers: {why}"),
            Failure::Unreached(why) | Failure::Lost(why) => format!("Kafka: {why}"),
            Failure::Code(code) => format!("Kafka refuses the topic {topic}: {code}"),
            Failure::Refused(why) => why,
        })
    }

    /// True if the topic may have another leader now, or will have one soon.
    pub(crate) fn moves(&self) -> bool {
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

/// The failure behind a number, if it is one.
pub(crate) fn check(code: i16) -> Result<(), Failure> {
    match code.err() {
        None => Ok(()),
        Some(error) => Err(Failure::Code(error)),
    }
}

/// A name as messages hold it.
pub(crate) fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// An answer of a broker that cannot be read.
pub(crate) fn unread() -> Failure {
    Failure::Lost("an answer that cannot be read".to_owned())
}
