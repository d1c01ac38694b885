//! A frame, from bytes to request: it is read or refused, and what is read is JSON.
#![no_main]

// `frame` takes these from the kernel.
extern crate self as kernel;
pub use error::RpcError;
pub use proto_schemas::codes;

#[path = "../../../services/kernel/error.rs"]
mod error;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../../gateway/src/frame/mod.rs"]
mod frame;
#[path = "../../../services/kernel/strict_json.rs"]
pub mod strict_json;

use frame::RequestFrame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match frame::read(text) {
        Ok(RequestFrame::One(request)) => {
            assert!(request.params.is_none_or(|params| params.get().starts_with('{')))
        }
        Ok(RequestFrame::Batch(members)) => assert!((1..=frame::BATCH).contains(&members.len())),
        Err(refusal) => {
            let code = refusal.error.code();
            assert!(matches!(code, -32700 | -32600 | -32602), "{code}");
        }
    }
});
