//! The shapes of responses, by which their lists are checked before the library decodes them.
//!
//! The library reserves memory for as many items as a list announces, so a broker that announces two billion items would crash the process.
//! The check here verifies that all items are present.

/// The fields of a response.
pub(crate) struct Shape {
    /// The first version in which lengths are varints, and tagged fields follow each structure (KIP-482).
    pub(crate) flexible: i16,
    pub(crate) fields: &'static [Field],
}

/// A field, with the first and the last version that contains it.
pub(crate) type Field = (i16, i16, FieldKind);

pub(crate) enum FieldKind {
    /// A fixed number of bytes.
    Fixed(usize),
    /// A nullable text.
    Text,
    /// Nullable bytes.
    Bytes,
    /// A list of numbers of this many bytes.
    Numbers(usize),
    /// A list of texts.
    Texts,
    /// A list of structures.
    List(&'static [Field]),
}

use FieldKind::{Bytes, Fixed, List, Numbers, Text, Texts};

/// The last version of a field that still exists.
const NOW: i16 = i16::MAX;

pub(crate) const API_VERSIONS: Shape = Shape {
    flexible: 3,
    fields: &[
        (0, NOW, Fixed(2)),
        (0, NOW, List(&[(0, NOW, Fixed(2)), (0, NOW, Fixed(2)), (0, NOW, Fixed(2))])),
    ],
};

pub(crate) const SASL_HANDSHAKE: Shape =
    Shape { flexible: NOW, fields: &[(0, NOW, Fixed(2)), (0, NOW, Texts)] };

pub(crate) const SASL_AUTHENTICATE: Shape = Shape {
    flexible: 2,
    fields: &[(0, NOW, Fixed(2)), (0, NOW, Text), (0, NOW, Bytes), (1, NOW, Fixed(8))],
};

pub(crate) const METADATA: Shape = Shape {
    flexible: 9,
    fields: &[
        (3, NOW, Fixed(4)),
        (0, NOW, List(&[(0, NOW, Fixed(4)), (0, NOW, Text), (0, NOW, Fixed(4)), (1, NOW, Text)])),
        (2, NOW, Text),
        (1, NOW, Fixed(4)),
        (
            0,
            NOW,
            List(&[
                (0, NOW, Fixed(2)),
                (0, NOW, Text),
                (1, NOW, Fixed(1)),
                (
                    0,
                    NOW,
                    List(&[
                        (0, NOW, Fixed(2)),
                        (0, NOW, Fixed(4)),
                        (0, NOW, Fixed(4)),
                        (7, NOW, Fixed(4)),
                        (0, NOW, Numbers(4)),
                        (0, NOW, Numbers(4)),
                        (5, NOW, Numbers(4)),
                    ]),
                ),
                (8, NOW, Fixed(4)),
            ]),
        ),
        (8, 10, Fixed(4)),
    ],
};

pub(crate) const CREATE_TOPICS: Shape = Shape {
    flexible: 5,
    fields: &[
        (2, NOW, Fixed(4)),
        (
            0,
            NOW,
            List(&[
                (0, NOW, Text),
                (7, NOW, Fixed(16)),
                (0, NOW, Fixed(2)),
                (1, NOW, Text),
                (5, NOW, Fixed(4)),
                (5, NOW, Fixed(2)),
                (
                    5,
                    NOW,
                    List(&[
                        (5, NOW, Text),
                        (5, NOW, Text),
                        (5, NOW, Fixed(1)),
                        (5, NOW, Fixed(1)),
                        (5, NOW, Fixed(1)),
                    ]),
                ),
            ]),
        ),
    ],
};

pub(crate) const INIT_PRODUCER_ID: Shape = Shape {
    flexible: 2,
    fields: &[(0, NOW, Fixed(4)), (0, NOW, Fixed(2)), (0, NOW, Fixed(8)), (0, NOW, Fixed(2))],
};

pub(crate) const PRODUCE: Shape = Shape {
    flexible: 9,
    fields: &[
        (
            0,
            NOW,
            List(&[
                (0, NOW, Text),
                (
                    0,
                    NOW,
                    List(&[
                        (0, NOW, Fixed(4)),
                        (0, NOW, Fixed(2)),
                        (0, NOW, Fixed(8)),
                        (2, NOW, Fixed(8)),
                        (5, NOW, Fixed(8)),
                        (8, NOW, List(&[(8, NOW, Fixed(4)), (8, NOW, Text)])),
                        (8, NOW, Text),
                    ]),
                ),
            ]),
        ),
        (1, NOW, Fixed(4)),
    ],
};

pub(crate) const LIST_OFFSETS: Shape = Shape {
    flexible: 6,
    fields: &[
        (2, NOW, Fixed(4)),
        (
            0,
            NOW,
            List(&[
                (0, NOW, Text),
                (
                    0,
                    NOW,
                    List(&[
                        (0, NOW, Fixed(4)),
                        (0, NOW, Fixed(2)),
                        (0, 0, Numbers(8)),
                        (1, NOW, Fixed(8)),
                        (1, NOW, Fixed(8)),
                        (4, NOW, Fixed(4)),
                    ]),
                ),
            ]),
        ),
    ],
};

pub(crate) const FETCH: Shape = Shape {
    flexible: 12,
    fields: &[
        (1, NOW, Fixed(4)),
        (7, NOW, Fixed(2)),
        (7, NOW, Fixed(4)),
        (
            0,
            NOW,
            List(&[
                (0, NOW, Text),
                (
                    0,
                    NOW,
                    List(&[
                        (0, NOW, Fixed(4)),
                        (0, NOW, Fixed(2)),
                        (0, NOW, Fixed(8)),
                        (4, NOW, Fixed(8)),
                        (5, NOW, Fixed(8)),
                        (4, NOW, List(&[(4, NOW, Fixed(8)), (4, NOW, Fixed(8))])),
                        (11, NOW, Fixed(4)),
                        (0, NOW, Bytes),
                    ]),
                ),
            ]),
        ),
    ],
};

impl Shape {
    /// Returns true if the bytes begin with a complete response of this shape in this version.
    pub(crate) fn fits(&self, bytes: &[u8], version: i16) -> bool {
        let is_flexible = version >= self.flexible;
        let mut walk = Walk { rest: bytes, version, is_flexible };
        walk.structure(self.fields).is_some()
    }
}

/// The state of a check of a response.
struct Walk<'b> {
    rest: &'b [u8],
    version: i16,
    is_flexible: bool,
}

impl Walk<'_> {
    fn structure(&mut self, fields: &[Field]) -> Option<()> {
        for (from, to, kind) in fields {
            if (*from..=*to).contains(&self.version) {
                self.field(kind)?;
            }
        }
        if self.is_flexible {
            let tags = self.variable()?;
            for _ in 0..tags {
                self.variable()?;
                let len = self.variable()?;
                self.skip(len)?;
            }
        }
        Some(())
    }

    fn field(&mut self, kind: &FieldKind) -> Option<()> {
        match kind {
            Fixed(len) => self.skip(*len),
            Text => {
                let len = if self.is_flexible {
                    self.variable()?.saturating_sub(1)
                } else {
                    usize::try_from(i16::from_be_bytes(self.take()?)).unwrap_or(0)
                };
                self.skip(len)
            }
            Bytes => {
                let len = self.count()?;
                self.skip(len)
            }
            Numbers(size) => {
                let len = self.count()?.checked_mul(*size)?;
                self.skip(len)
            }
            Texts => (0..self.items()?).try_for_each(|_| self.field(&Text)),
            List(fields) => (0..self.items()?).try_for_each(|_| self.structure(fields)),
        }
    }

    /// Reads the number of a list's items, each of which has at least one byte.
    fn items(&mut self) -> Option<usize> {
        self.count().filter(|count| *count <= self.rest.len())
    }

    /// Reads a length or a number of items. Null counts as 0. Returns `None` if the bytes end before.
    fn count(&mut self) -> Option<usize> {
        if self.is_flexible {
            Some(self.variable()?.saturating_sub(1))
        } else {
            Some(usize::try_from(i32::from_be_bytes(self.take()?)).unwrap_or(0))
        }
    }

    /// Reads a varint.
    fn variable(&mut self) -> Option<usize> {
        let mut value = 0_u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take()?;
            value |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value as usize);
            }
        }
        None
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.rest = self.rest.get(len..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes as Answer, BytesMut};
    use kafka_protocol::messages::create_topics_response::{
        CreatableTopicConfigs, CreatableTopicResult,
    };
    use kafka_protocol::messages::fetch_response::{
        AbortedTransaction, FetchableTopicResponse, PartitionData,
    };
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::produce_response::{
        BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
    };
    use kafka_protocol::messages::*;
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;

    /// Encodes a response. Returns `None` for a version that the library no longer supports.
    fn encoded(answer: &impl Encodable, version: i16) -> Option<Vec<u8>> {
        let mut bytes = BytesMut::new();
        answer.encode(&mut bytes, version).ok()?;
        Some(bytes.to_vec())
    }

    #[track_caller]
    fn check(shape: &Shape, newest: i16, answer: impl Fn(i16) -> Option<Vec<u8>>) {
        assert!(answer(newest).is_some(), "the newest is known");
        for (version, whole) in (0..=newest).filter_map(|n| Some((n, answer(n)?))) {
            let mut walk = Walk { rest: &whole, version, is_flexible: version >= shape.flexible };
            assert_eq!(walk.structure(shape.fields), Some(()), "version {version}");
            assert_eq!(walk.rest.len(), 0, "version {version} has a rest");
            for len in 0..whole.len() {
                assert!(!shape.fits(&whole[..len], version), "version {version}, {len} bytes");
            }
        }
    }

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn answers_have_the_shapes_that_the_library_writes() {
        let partition = || {
            MetadataResponsePartition::default()
                .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
                .with_isr_nodes(vec![BrokerId(1)])
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(TopicName(text("t"))))
            .with_partitions(vec![partition(), partition()]);
        let broker = MetadataResponseBroker::default().with_host(text("h"));
        let metadata = MetadataResponse::default()
            .with_brokers(vec![broker.clone(), broker])
            .with_topics(vec![topic]);
        check(&METADATA, 9, |version| encoded(&metadata, version));

        let aborted = AbortedTransaction::default();
        let partition = |version: i16| {
            let aborted = (version >= 4).then(|| vec![aborted.clone(), aborted.clone()]);
            PartitionData::default()
                .with_aborted_transactions(aborted)
                .with_records(Some(Answer::from_static(b"abc")))
        };
        check(&FETCH, 12, |version| {
            let topic = FetchableTopicResponse::default()
                .with_topic(TopicName(text("t")))
                .with_partitions(vec![partition(version)]);
            encoded(&FetchResponse::default().with_responses(vec![topic]), version)
        });

        check(&PRODUCE, 9, |version| {
            let errors = vec![BatchIndexAndErrorMessage::default()];
            let errors = if version >= 8 { errors } else { Vec::new() };
            let partition = PartitionProduceResponse::default().with_record_errors(errors);
            let topic = TopicProduceResponse::default()
                .with_name(TopicName(text("t")))
                .with_partition_responses(vec![partition]);
            encoded(&ProduceResponse::default().with_responses(vec![topic]), version)
        });

        check(&LIST_OFFSETS, 7, |version| {
            let partition = ListOffsetsPartitionResponse::default();
            let topic = ListOffsetsTopicResponse::default()
                .with_name(TopicName(text("t")))
                .with_partitions(vec![partition]);
            encoded(&ListOffsetsResponse::default().with_topics(vec![topic]), version)
        });

        check(&CREATE_TOPICS, 7, |version| {
            let configs = vec![CreatableTopicConfigs::default().with_name(text("n"))];
            let mut result = CreatableTopicResult::default().with_name(TopicName(text("t")));
            if version >= 5 {
                result = result.with_configs(Some(configs));
            }
            encoded(&CreateTopicsResponse::default().with_topics(vec![result]), version)
        });
        check(&INIT_PRODUCER_ID, 4, |version| encoded(&InitProducerIdResponse::default(), version));
        let said = SaslAuthenticateResponse::default()
            .with_auth_bytes(Answer::from_static(b"abc"))
            .with_error_message(Some(text("e")));
        check(&SASL_AUTHENTICATE, 2, |version| encoded(&said, version));
        let known = SaslHandshakeResponse::default().with_mechanisms(vec![text("PLAIN")]);
        check(&SASL_HANDSHAKE, 1, |version| encoded(&known, version));
        let versions = api_versions_response::ApiVersion::default();
        let versions = ApiVersionsResponse::default().with_api_keys(vec![versions]);
        check(&API_VERSIONS, 0, |version| encoded(&versions, version));
    }

    #[test]
    fn a_list_that_announces_missing_items_is_refused() {
        // No throttling, followed by the maximum number of brokers.
        for (version, bytes) in [
            (0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0][..]),
            (9, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]),
        ] {
            assert!(!METADATA.fits(bytes, version), "{version}");
        }
    }
}
