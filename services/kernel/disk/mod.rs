//! `Disk`: whether the stores of this process have space for new bytes.
//!
//! A database whose disk is full can do nothing at all, not even delete. So new bytes are refused while some space is left: what frees
//! space or needs next to none goes on, such as reads, acks, deletes and logins. Which methods store new bytes is declared in their
//! schemas. [`crate::Methods`] asks here before each call of one of them, and so does what stands in front of the routers of services.

mod limits;
mod reading;

pub use limits::StoreLimits;
pub use reading::{DiskReading, DiskSpace};

use crate::RpcError;
use parking_lot::Mutex;
use proto_schemas::{Method, NewBytes};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The disk of the stores of this process, as it was measured last. Until then there is enough space.
#[derive(Clone, Default)]
pub struct Disk(Arc<MeasuredDisk>);

#[derive(Default)]
struct MeasuredDisk {
    /// The [`DiskSpace`] of the reading. Calls on all threads read it, so nothing is locked for that.
    space: AtomicU8,
    reading: Mutex<Option<DiskReading>>,
    refusals: AtomicU64,
}

impl Disk {
    pub fn space(&self) -> DiskSpace {
        match self.0.space.load(Ordering::Relaxed) {
            0 => DiskSpace::Enough,
            1 => DiskSpace::Low,
            _ => DiskSpace::Full,
        }
    }

    /// What was measured last. None if nothing limits the stores of this process, or it has none.
    pub fn reading(&self) -> Option<DiskReading> {
        *self.0.reading.lock()
    }

    /// How many calls were refused.
    pub fn refusals(&self) -> u64 {
        self.0.refusals.load(Ordering::Relaxed)
    }

    /// Takes over what was measured, and logs when there is less or more space than before.
    pub fn set(&self, reading: DiskReading) {
        let (before, space) = (self.space(), reading.space());
        *self.0.reading.lock() = Some(reading);
        self.0.space.store(space as u8, Ordering::Relaxed);
        match reading.notice() {
            Some(notice) if space != before => tracing::warn!("{notice}: {}", reading.remedy()),
            None if space != before => tracing::info!("free space is sufficient again"),
            _ => {}
        }
    }

    /// Refuses a call that stores new bytes while there is no space for them.
    pub fn check(&self, method: &Method, params: Option<&RawValue>) -> Result<(), RpcError> {
        if method.new_bytes == NewBytes::Never || self.space() != DiskSpace::Full {
            return Ok(());
        }
        match method.new_bytes {
            NewBytes::With(param) if !is_given(params, param) => Ok(()),
            _ => self.check_bytes(),
        }
    }

    /// Refuses new bytes while there is no space for them, and counts it.
    pub fn check_bytes(&self) -> Result<(), RpcError> {
        if self.space() != DiskSpace::Full {
            return Ok(());
        }
        self.0.refusals.fetch_add(1, Ordering::Relaxed);
        Err(RpcError::no_space())
    }
}

/// Whether a param is there and holds something: `null` and an empty list store nothing. Params of the wrong form are refused by their
/// method.
fn is_given(params: Option<&RawValue>, param: &str) -> bool {
    let members =
        params.and_then(|params| serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(params.get()).ok());
    let Some(value) = members.as_ref().and_then(|members| members.get(param)) else { return false };
    let is_empty = serde_json::from_str::<Option<Vec<IgnoredAny>>>(value.get())
        .is_ok_and(|list| list.is_none_or(|items| items.is_empty()));
    !is_empty
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn disk(free: u64) -> Disk {
        let disk = Disk::default();
        disk.set(DiskReading::of_disk(free, 1 << 30));
        disk
    }

    fn answer(disk: &Disk, method: &str, params: serde_json::Value) -> Result<(), RpcError> {
        disk.check(find(method).unwrap(), Some(&to_raw_value(&params).unwrap()))
    }

    #[test]
    fn a_full_disk_refuses_new_bytes_and_nothing_else() {
        let full = disk(1000);
        for method in ["message.send", "task.create", "auth.create_aid", "agent.put_agent_md"] {
            let refused = answer(&full, method, json!({})).unwrap_err();
            assert_eq!((refused.code(), refused.data("retryable")), (5003, Some(&json!(true))), "{method}");
            assert!(refused.retry_after_seconds().is_some());
        }
        for method in ["message.pull", "message.ack", "message.recall", "auth.aid_login2", "meta.ping"] {
            assert!(answer(&full, method, json!({})).is_ok(), "{method}");
        }
        assert_eq!(full.refusals(), 4);
    }

    #[test]
    fn a_method_that_stores_with_one_param_goes_on_without_it() {
        let full = disk(1000);
        for params in [json!({}), json!({ "artifacts": null }), json!({ "artifacts": [] })] {
            assert!(answer(&full, "task.complete", params).is_ok());
        }
        assert!(answer(&full, "task.complete", json!({ "artifacts": [{ "name": "a" }] })).is_err());
        assert!(full.check(find("task.complete").unwrap(), None).is_ok());
    }

    #[test]
    fn new_bytes_are_stored_while_space_is_low_and_again_when_there_is_enough() {
        let disk = disk(1000);
        assert_eq!(disk.space(), DiskSpace::Full);
        for (free, space) in [(3 << 29, DiskSpace::Low), (4 << 30, DiskSpace::Enough)] {
            disk.set(DiskReading::of_disk(free, 1 << 30));
            assert_eq!(disk.space(), space);
            assert!(answer(&disk, "message.send", json!({})).is_ok());
        }
        assert_eq!(Disk::default().space(), DiskSpace::Enough, "until something was measured");
    }
}
