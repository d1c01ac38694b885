//! What is kept for agents.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::requests::meta::KeptAccount;
use crate::{Aid, Request};

/// `message.account`: what message keeps for agents.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub aid: Option<Aid>,
    pub bytes: Option<i64>,
    pub rows: Option<i64>,
}

impl Request for Account {
    const METHOD: &'static str = "message.account";
    type Result = MessageAccounts;
}

/// What is kept of what agents sent, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageAccounts {
    pub accounts: Vec<KeptAccount>,
}
