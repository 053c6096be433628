//! The workers of a cluster, and which of them answer.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_datafusion_err, plan_err};
use datafusion_distributed::{GetWorkerInfoRequest, WorkerResolver};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use url::Url;

use crate::online::channels::Channels;

/// The time between two questions to all workers.
const PAUSE: Duration = Duration::from_secs(1);
/// The time that a worker has to answer. One that is busy answers late; one whose process has died refuses at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Workers by their addresses, and which of them answered when they were last asked: every second.
#[derive(Debug)]
pub struct Workers {
    all: Vec<Url>,
    alive: RwLock<Vec<bool>>,
    /// Set when all were asked for the first time. Until then all count as alive.
    asked: OnceCell<()>,
    channels: Channels,
}

impl Workers {
    /// Watches workers, given as `http://host:port`, until nobody uses them any more. Needs a runtime of tokio.
    ///
    /// Errors if there is none, or an address is none.
    pub fn watch(addresses: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Arc<Self>> {
        let parse = |address: &str| match Url::parse(address) {
            Ok(url) if url.scheme() == "http" && url.host().is_some() && url.port().is_some() => Ok(url),
            _ => plan_err!("workers: needed addresses as in http://host:50060, given {address:?}"),
        };
        let all = addresses.into_iter().map(|address| parse(address.as_ref())).collect::<Result<Vec<_>>>()?;
        if all.is_empty() {
            return plan_err!("workers: needed at least one address");
        }
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| plan_datafusion_err!("workers: needed a runtime of tokio to watch them"))?;
        let workers = Arc::new(Self::new(all));
        let watched = Arc::downgrade(&workers);
        runtime.spawn(async move {
            while let Some(workers) = watched.upgrade() {
                match workers.asked.initialized() {
                    true => workers.ask().await,
                    false => workers.wait_until_asked().await,
                }
                drop(workers);
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(workers)
    }

    fn new(all: Vec<Url>) -> Self {
        let alive = RwLock::new(vec![true; all.len()]);
        Self { all, alive, asked: OnceCell::new(), channels: Channels::default() }
    }

    /// Asks all workers now.
    pub(crate) async fn ask(&self) {
        let mut questions = JoinSet::new();
        for (number, url) in self.all.iter().enumerate() {
            let channel = self.channels.to(url);
            questions.spawn(async move {
                let Ok(mut channel) = channel else { return (number, false) };
                let answer = tokio::time::timeout(PATIENCE, channel.get_worker_info(GetWorkerInfoRequest {}));
                (number, matches!(answer.await, Ok(Ok(_))))
            });
        }
        let mut alive = vec![false; self.all.len()];
        while let Some(answer) = questions.join_next().await {
            if let Ok((number, answers)) = answer {
                alive[number] = answers;
            }
        }
        *self.alive.write().unwrap_or_else(PoisonError::into_inner) = alive;
    }

    /// Waits until all workers were asked once, so that the first statement goes to none that is not there.
    pub(crate) async fn wait_until_asked(&self) {
        self.asked.get_or_init(|| self.ask()).await;
    }

    /// The connections to the workers.
    pub(crate) fn channels(&self) -> &Channels {
        &self.channels
    }

    /// How many there are, whether they answer or not.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The addresses of those that answer, in the order in which they were given.
    pub fn alive(&self) -> Vec<Url> {
        let alive = self.alive.read().unwrap_or_else(PoisonError::into_inner);
        self.all.iter().zip(alive.iter()).filter(|(_, alive)| **alive).map(|(url, _)| url.clone()).collect()
    }

    /// The error that no worker answers.
    pub(crate) fn nobody(&self) -> DataFusionError {
        let all: Vec<&str> = self.all.iter().map(Url::as_str).collect();
        exec_datafusion_err!("no worker answers, of {}", all.join(", "))
    }

    /// The worker that has the index of this number in memory: always the same one while it answers, so that the others keep theirs when
    /// one is lost. None if no worker answers.
    pub(crate) fn home(&self, number: usize) -> Option<Url> {
        let home = number % self.all.len();
        if self.alive.read().unwrap_or_else(PoisonError::into_inner)[home] {
            return Some(self.all[home].clone());
        }
        let alive = self.alive();
        (!alive.is_empty()).then(|| alive[number % alive.len()].clone())
    }
}

/// What datafusion-distributed asks for workers.
pub(crate) struct Alive(pub(crate) Arc<Workers>);

impl WorkerResolver for Alive {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        let alive = self.0.alive();
        if alive.is_empty() { Err(self.0.nobody()) } else { Ok(alive) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_a_lost_worker_go_to_the_others_which_keep_their_own() {
        let all: Vec<Url> =
            (1..=3).map(|host| format!("http://gpu-{host}:50060").parse().expect("a url")).collect();
        let workers = Workers::new(all.clone());
        let homes = |workers: &Workers| (0..9).map(|number| workers.home(number)).collect::<Vec<_>>();
        let of = |numbers: [usize; 9]| numbers.map(|number| Some(all[number].clone()));
        assert_eq!(homes(&workers), of([0, 1, 2, 0, 1, 2, 0, 1, 2]));
        *workers.alive.write().expect("no panic before") = vec![true, false, true];
        // Not all to one of them.
        assert_eq!(homes(&workers), of([0, 2, 2, 0, 0, 2, 0, 2, 2]));
        *workers.alive.write().expect("no panic before") = vec![false; 3];
        assert_eq!(workers.home(0), None);
    }
}
