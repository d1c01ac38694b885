//! What is kept for agents.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::requests::meta::ServiceAccounts;
use crate::{Aid, Request};

/// `task.account`: what task keeps for agents.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub aid: Option<Aid>,
    pub bytes: Option<i64>,
    pub rows: Option<i64>,
    pub recount: Option<bool>,
}

impl Request for Account {
    const METHOD: &'static str = "task.account";
    type Result = ServiceAccounts;
}
