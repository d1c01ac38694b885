//! How many streams are open over HTTP: per caller, and in this process.
//!
//! A stream lasts as long as its client wants, so no rate and no deadline bounds how many there are.

use crate::config::LimitsConfig;
use kernel::{AddressCounts, AddressLimit, CountedAddress, RpcError, codes};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

pub struct OpenStreams {
    most: usize,
    most_per_caller: u32,
    counted: Mutex<CountedStreams>,
    /// Of callers that are known by their address only.
    addresses: Arc<AddressCounts>,
}

#[derive(Default)]
struct CountedStreams {
    all: usize,
    by_subject: HashMap<String, u32>,
}

/// One stream, counted until this is dropped.
pub struct CountedStream {
    streams: Arc<OpenStreams>,
    subject: Option<String>,
    _address: Option<CountedAddress>,
}

impl OpenStreams {
    pub fn new(config: &LimitsConfig) -> Arc<OpenStreams> {
        Arc::new(OpenStreams {
            most: config.streams,
            most_per_caller: config.streams_per_caller,
            counted: Mutex::default(),
            addresses: AddressCounts::new(AddressLimit::per_address(config.streams_per_caller)),
        })
    }

    /// Counts a stream for its caller, or for the address that it comes from where nobody is known.
    pub fn open(
        self: &Arc<OpenStreams>,
        subject: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<CountedStream, RpcError> {
        let most = self.most_per_caller;
        let full = |held| too_many("per caller", "limits.streams_per_caller", most as usize, held);
        // What is known only by its address is counted there first: it has a lock of its own.
        let by_address = address.filter(|_| subject.is_none());
        let address = match by_address {
            Some(address) => Some(self.addresses.take(address).ok_or_else(|| full(most as usize))?),
            None => None,
        };
        let mut counted = self.counted.lock();
        let held = subject.and_then(|subject| counted.by_subject.get(subject)).copied().unwrap_or(0);
        if held >= most {
            return Err(full(held as usize));
        }
        if counted.all >= self.most {
            return Err(too_many("in this process", "limits.streams", self.most, counted.all));
        }
        counted.all += 1;
        if let Some(subject) = subject {
            counted.by_subject.insert(subject.to_owned(), held + 1);
        }
        let subject = subject.map(str::to_owned);
        Ok(CountedStream { streams: self.clone(), subject, _address: address })
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.counted.lock().all
    }
}

fn too_many(whose: &str, scope: &str, limit: usize, held: usize) -> RpcError {
    let sentence = format!("at most {limit} streams may be open {whose}, and {held} are: close one first");
    RpcError::new(codes::RATE_LIMITED, sentence).with("scope", scope).with("limit", limit).with("held", held)
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        let mut counted = self.streams.counted.lock();
        counted.all -= 1;
        let Some(subject) = &self.subject else { return };
        if let Some(held) = counted.by_subject.get_mut(subject) {
            *held -= 1;
            if *held == 0 {
                counted.by_subject.remove(subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_an_address_and_the_process_have_so_many_streams() {
        let limits = LimitsConfig { streams: 5, streams_per_caller: 2, ..LimitsConfig::default() };
        let streams = OpenStreams::new(&limits);
        let (here, there) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        let refused = |opened: Result<CountedStream, RpcError>| {
            let error = opened.err().expect("it is refused");
            assert_eq!((error.kind(), error.http_status().as_u16()), ("rate_limited", 429));
            let number = |name: &str| error.data(name).and_then(serde_json::Value::as_u64).unwrap();
            (error.data("scope").unwrap().as_str().unwrap().to_owned(), number("limit"), number("held"))
        };
        let alice = [streams.open(Some("alice.aid.pub"), here), streams.open(Some("alice.aid.pub"), there)];
        let per_caller = ("limits.streams_per_caller".to_owned(), 2, 2);
        assert_eq!(refused(streams.open(Some("alice.aid.pub"), here)), per_caller);
        let tenant = streams.open(Some("tenant:alice.aid.pub"), here).unwrap();
        let nobody = [streams.open(None, here), streams.open(None, here)];
        assert_eq!(refused(streams.open(None, here)), per_caller, "by address where nobody is known");
        assert_eq!(refused(streams.open(None, there)), ("limits.streams".to_owned(), 5, 5));
        drop(tenant);
        let other = streams.open(None, there).unwrap();
        assert_eq!(streams.count(), 5);
        drop((alice, nobody, other));
        assert_eq!((streams.count(), streams.counted.lock().by_subject.len()), (0, 0));
        assert!(streams.addresses.is_empty());
    }
}
