//! Opens a connection to a broker: connects, negotiates versions and authenticates.

use std::io;
use std::time::Duration;

use kafka_protocol::messages::ApiVersionsRequest;
use kit::dial::Stream;

use crate::connection::Connection;
use crate::protocol::{Failure, check};
use crate::{Broker, KafkaSettings, sasl};

/// The timeout for opening a connection, including its handshakes.
const CONNECT_MAX: Duration = Duration::from_secs(5);

impl Connection {
    /// Connects, negotiates versions and authenticates.
    pub(crate) async fn open(
        broker: &Broker,
        settings: &KafkaSettings,
    ) -> Result<Connection, Failure> {
        match tokio::time::timeout(CONNECT_MAX, Connection::opened(broker, settings)).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::Unreached(format!("{broker} does not answer"))),
        }
    }

    async fn opened(broker: &Broker, settings: &KafkaSettings) -> Result<Connection, Failure> {
        let unreached = |error: io::Error| Failure::Unreached(format!("{broker}: {error}"));
        let stream = kit::dial::tcp(&broker.host, broker.port).await.map_err(unreached)?;
        let stream: Box<dyn Stream> = match &settings.tls {
            Some(tls) => Box::new(tls.connect(&broker.host, stream).await.map_err(unreached)?),
            None => Box::new(stream),
        };
        let connection = Connection::over(stream, broker);
        let negotiated = connection.negotiate(settings).await;
        negotiated.map_err(|failure| match failure {
            Failure::Lost(why) | Failure::Unreached(why) => Failure::Unreached(why),
            Failure::Code(code) => Failure::Unreached(format!("{broker}: {code}")),
            other @ (Failure::NoBroker(_) | Failure::Refused(_)) => other,
        })?;
        Ok(connection)
    }

    async fn negotiate(&self, settings: &KafkaSettings) -> Result<(), Failure> {
        // Every broker supports version 0 of this request.
        let known = self.ask_in(&ApiVersionsRequest::default(), 0, CONNECT_MAX).await?;
        check(known.error_code)?;
        let versions = known.api_keys.iter();
        self.use_versions(
            versions.map(|api| (api.api_key, api.min_version, api.max_version)).collect(),
        );
        match &settings.sasl {
            Some(sasl) => sasl::authenticate(self, sasl).await,
            None => Ok(()),
        }
    }
}
