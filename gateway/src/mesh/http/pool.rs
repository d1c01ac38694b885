//! The HTTP/2 connections to one process: as many as its requests need, each up to the number of streams that it may have.
//!
//! A request takes the first connection that has space, so the later ones become idle when there are fewer requests, and are closed
//! after a while. Only one connection is dialled at a time, and only those wait for it that have no space elsewhere.

use super::STREAMS;
use axum::body::Body;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a connection beside the first one stays open without a request.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// `C` is a connection: in tests it need not be one.
pub(super) struct ConnectionPool<C> {
    connections: Mutex<PooledConnections<C>>,
    /// Held by the one who dials.
    dialling: tokio::sync::Mutex<()>,
    most_streams: usize,
}

struct PooledConnections<C> {
    open: Vec<PooledConnection<C>>,
    last_id: u64,
}

struct PooledConnection<C> {
    id: u64,
    connection: C,
    streams: usize,
    /// Since when it has no stream.
    idle_since: Instant,
}

/// What the pool has to know of a connection.
pub(super) trait PoolableConnection: Clone {
    fn is_closed(&self) -> bool;
}

impl PoolableConnection for SendRequest<Body> {
    fn is_closed(&self) -> bool {
        SendRequest::is_closed(self)
    }
}

/// One stream of a connection, until this is dropped.
pub(super) struct PooledStream<C: PoolableConnection> {
    pub connection: C,
    id: u64,
    pool: Arc<ConnectionPool<C>>,
}

impl<C: PoolableConnection> ConnectionPool<C> {
    pub fn new() -> Arc<ConnectionPool<C>> {
        ConnectionPool::with(STREAMS as usize)
    }

    fn with(most_streams: usize) -> Arc<ConnectionPool<C>> {
        let connections = Mutex::new(PooledConnections { open: Vec::new(), last_id: 0 });
        Arc::new(ConnectionPool { connections, dialling: tokio::sync::Mutex::default(), most_streams })
    }

    /// A stream of an open connection, or of one that is dialled for it. `dial` is given the id of the new connection.
    pub async fn stream<E>(
        self: &Arc<Self>,
        dial: impl AsyncFnOnce(u64) -> Result<C, E>,
    ) -> Result<PooledStream<C>, E> {
        if let Some(stream) = self.take() {
            return Ok(stream);
        }
        let _dialling = self.dialling.lock().await;
        // Another one may have dialled meanwhile, or a stream may have ended.
        if let Some(stream) = self.take() {
            return Ok(stream);
        }
        let id = {
            let mut connections = self.connections.lock();
            connections.last_id += 1;
            connections.last_id
        };
        let connection = dial(id).await?;
        let idle_since = Instant::now();
        let pooled = PooledConnection { id, connection: connection.clone(), streams: 1, idle_since };
        self.connections.lock().open.push(pooled);
        Ok(PooledStream { connection, id, pool: self.clone() })
    }

    fn take(self: &Arc<Self>) -> Option<PooledStream<C>> {
        let mut connections = self.connections.lock();
        connections.open.retain(|pooled| !pooled.connection.is_closed());
        let free = connections.open.iter_mut().find(|pooled| pooled.streams < self.most_streams)?;
        free.streams += 1;
        Some(PooledStream { connection: free.connection.clone(), id: free.id, pool: self.clone() })
    }

    /// Forgets a connection that has had no stream for a while and is not the first. Returns whether it is gone: then nobody uses it.
    pub fn forget_idle(&self, id: u64, now: Instant) -> bool {
        let mut connections = self.connections.lock();
        let position = connections.open.iter().position(|pooled| pooled.id == id);
        let Some(position) = position else { return false };
        let pooled = &connections.open[position];
        let is_idle =
            position > 0 && pooled.streams == 0 && now.saturating_duration_since(pooled.idle_since) >= IDLE;
        if is_idle {
            connections.open.remove(position);
        }
        is_idle
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.connections.lock().open.len()
    }
}

impl<C: PoolableConnection> Drop for PooledStream<C> {
    fn drop(&mut self) {
        let mut connections = self.pool.connections.lock();
        if let Some(pooled) = connections.open.iter_mut().find(|pooled| pooled.id == self.id) {
            pooled.streams -= 1;
            pooled.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::convert::Infallible;
    use std::future::pending;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::time::timeout;

    #[derive(Clone, Default)]
    struct TestConnection(Arc<AtomicBool>);

    impl PoolableConnection for TestConnection {
        fn is_closed(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    async fn take(pool: &Arc<ConnectionPool<TestConnection>>) -> PooledStream<TestConnection> {
        let dialled = async |_| Ok::<_, Infallible>(TestConnection::default());
        pool.stream(dialled).await.unwrap_or_else(|never| match never {})
    }

    #[tokio::test]
    async fn a_full_connection_gets_another_beside_it_which_is_closed_when_it_is_idle() {
        let pool = ConnectionPool::with(2);
        let (first, second, third) = (take(&pool).await, take(&pool).await, take(&pool).await);
        assert_eq!((first.id, second.id, third.id, pool.len()), (1, 1, 2, 2));
        drop(first);
        let again = take(&pool).await;
        assert_eq!(again.id, 1, "the first one that has space");
        drop((again, second));
        let later = || Instant::now() + IDLE;
        assert!(!pool.forget_idle(1, later()), "the first one stays");
        assert!(!pool.forget_idle(2, later()), "it has a stream");
        drop(third);
        assert!(!pool.forget_idle(2, Instant::now()), "only just");
        assert!(pool.forget_idle(2, later()) && pool.len() == 1);
    }

    #[tokio::test]
    async fn a_closed_connection_is_not_used_again() {
        let pool = ConnectionPool::with(2);
        let first = take(&pool).await;
        first.connection.0.store(true, Ordering::Relaxed);
        let second = take(&pool).await;
        assert_eq!((second.id, pool.len()), (2, 1));
        drop(first);
        assert_eq!(take(&pool).await.id, 2);
    }

    #[tokio::test]
    async fn who_finds_space_does_not_wait_for_a_connection_that_another_one_dials() {
        let pool = ConnectionPool::with(1);
        let first = take(&pool).await;
        let dialling = pool.stream(async |_| pending::<Result<TestConnection, Infallible>>().await);
        let mut dialling = pin!(dialling);
        assert!(poll!(dialling.as_mut()).is_pending());
        drop(first);
        let again = timeout(Duration::from_secs(30), take(&pool)).await;
        assert_eq!(again.expect("there is space").id, 1);
    }
}
