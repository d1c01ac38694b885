//! `message.query_online`: who has a long connection right now.

use super::{Error, Message};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const MOST: usize = 100;

#[derive(Deserialize)]
pub(super) struct QueryOnlineParams {
    aids: Vec<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct Online {
    online: BTreeMap<String, bool>,
}

impl Message {
    pub(super) async fn query_online(
        self: Arc<Self>,
        _: Caller,
        params: QueryOnlineParams,
    ) -> Result<Online, Error> {
        if params.aids.len() > MOST {
            return Err(Error::Param(format!("params.aids: at most {MOST} are taken")));
        }

        // Everyone who was asked for gets an answer; whoever cannot be online is not.
        let is_online = |aid: &str| Aid::parse(aid).is_ok_and(|aid| self.presence.is_online(&aid));
        let online =
            params.aids.into_iter().map(|aid| (is_online(&aid), aid)).map(|(is, aid)| (aid, is)).collect();
        Ok(Online { online })
    }
}
