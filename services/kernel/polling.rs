//! Futures that run beside each other in one task, and share a store.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::pin::pin;

/// Awaits one future and polls others meanwhile; gives what those of them returned that ended.
///
/// The pool of a store gives its connections in the order of who asked, also to a future that nobody polls. Whoever awaited only
/// `one`, while one of the `others` asked before it, would keep a connection from everybody until `one` runs out of time: on SQLite
/// it is the only one that writes.
pub async fn await_polling<T, F: Future>(
    one: impl Future<Output = T>,
    others: &mut FuturesUnordered<F>,
) -> (T, Vec<F::Output>) {
    let (mut one, mut ended) = (pin!(one), Vec::new());
    loop {
        tokio::select! {
            output = &mut one => return (output, ended),
            Some(output) = others.next(), if !others.is_empty() => ended.push(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;
    use std::time::Duration;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    #[tokio::test]
    async fn one_that_waits_behind_another_gets_its_turn() {
        let connections = Semaphore::new(1);
        let held = connections.acquire().await.unwrap();
        let mut others = FuturesUnordered::new();
        others.push(async {
            drop(connections.acquire().await.unwrap());
            "the other"
        });
        assert_eq!(futures_util::poll!(others.next()), Poll::Pending, "it waits for the connection");
        let one = async {
            drop(connections.acquire().await.unwrap());
            "one"
        };
        let both = async { tokio::join!(await_polling(one, &mut others), async { drop(held) }).0 };
        let ended = timeout(Duration::from_secs(5), both).await.expect("nobody keeps the connection");
        assert_eq!(ended, ("one", vec!["the other"]));
    }
}
