//! Connections to workers, which end when a worker no longer answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use datafusion_distributed::{ChannelResolver, WorkerChannel, grpc};
use tonic::transport::{Channel, Endpoint};
use url::Url;

/// The longest time that a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// The time between two pings on a connection.
const PING: Duration = Duration::from_secs(2);
/// The longest time that a ping may take. The query of a worker that takes longer fails, as it does where the worker has died.
const PONG: Duration = Duration::from_secs(10);

/// One connection to each worker, made when it is first needed, and anew when it was lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channels(Arc<Mutex<HashMap<Url, Channel>>>);

impl Channels {
    /// The connection to a worker. Needs a runtime of tokio.
    pub(crate) fn to(&self, worker: &Url) -> Result<Box<dyn WorkerChannel>> {
        let mut channels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = match channels.get(worker) {
            Some(channel) => channel.clone(),
            None => {
                let endpoint = Endpoint::from_shared(worker.to_string())
                    .map_err(|error| DataFusionError::External(Box::new(error)))?;
                let channel = endpoint
                    .connect_timeout(CONNECT)
                    .http2_keep_alive_interval(PING)
                    .keep_alive_timeout(PONG)
                    .keep_alive_while_idle(true)
                    .connect_lazy();
                channels.entry(worker.clone()).or_insert(channel).clone()
            }
        };
        Ok(grpc::create_worker_client(grpc::BoxCloneSyncChannel::new(channel)))
    }
}

#[async_trait::async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        self.to(url)
    }
}
