//! Resolves names, with a limit on concurrent lookups.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

const MAX_LOOKUPS: usize = 64;

pub trait Resolve: fmt::Debug + Send + Sync {
    /// Returns all addresses of a name. The caller treats an empty list as an error.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// The resolver of the operating system.
///
/// It has no timeout, and a lookup cannot be cancelled: it outlives its attempt and holds a thread.
/// So concurrent lookups are limited. A further lookup waits, within the connect timeout.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl SystemResolver {
    /// The thread keeps its permit until it ends.
    async fn look_up<T: Send + 'static>(
        &self,
        look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let found = tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop(permit);
            found
        });
        found.await.map_err(io::Error::other)?
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let name = name.to_owned();
        Box::pin(
            self.look_up(move || Ok((name.as_str(), 0).to_socket_addrs()?.map(|found| found.ip()).collect())),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn hanging_lookups_use_a_bounded_number_of_threads() {
        let resolver = SystemResolver::default();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        for _ in 0..MAX_LOOKUPS {
            let ended = ended.clone();
            let mut asked =
                Box::pin(resolver.look_up(move || Ok(ended.lock().is_ok_and(|ended| ended.recv().is_ok()))));
            assert!(futures_util::poll!(asked.as_mut()).is_pending());
            // The attempt is over, the lookup is not.
        }
        let mut another = resolver.resolve("127.0.0.1");
        assert!(futures_util::poll!(another.as_mut()).is_pending(), "all threads are taken");
        assert_eq!(resolver.lookups.available_permits(), 0);
        drop(end);
        assert_eq!(another.await.unwrap(), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }
}
