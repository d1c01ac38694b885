//! What two gateways send each other: `federation.hello`, and after it `federation.relay`.

pub mod hello;
pub mod relay;
