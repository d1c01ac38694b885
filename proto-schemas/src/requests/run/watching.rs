//! Events of a run as they are stored.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `run.subscribe`: be told of the events of a run over this connection.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscribe {
    pub run_id: String,
    pub after_seq: Option<i64>,
}

impl Request for Subscribe {
    const METHOD: &'static str = "run.subscribe";
    type Result = SubscribedRun;
}

/// Where the log ends at this moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscribedRun {
    pub subscribed: bool,
    pub last_seq: i64,
}

/// `run.unsubscribe`: be told of them no more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unsubscribe {
    pub run_id: String,
}

impl Request for Unsubscribe {
    const METHOD: &'static str = "run.unsubscribe";
    type Result = UnsubscribedRun;
}

/// That the connection is not told any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnsubscribedRun {
    pub unsubscribed: bool,
}
