//! `task.assigned`: the open tasks of agents whose tasks another service works on.

use crate::TaskService;
use crate::model::error::Error;
use kernel::{Aid, Cache, Caller, PageLimit};
use parking_lot::Mutex;
use proto_schemas::requests::task::{Assigned, AssignedTasks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: PageLimit = PageLimit::new(500, 1000);
const MOST_AIDS: usize = 1000;
/// How long somebody is told of changes after it has asked.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// The agents whose tasks somebody has asked for lately: whoever asks is told when they change.
pub(crate) struct FollowedAgents(Mutex<Cache<Aid, Instant>>);

impl Default for FollowedAgents {
    fn default() -> FollowedAgents {
        FollowedAgents(Mutex::new(Cache::new(MOST_AIDS)))
    }
}

impl FollowedAgents {
    fn add(&self, aids: &[Aid]) {
        let (now, mut followed) = (Instant::now(), self.0.lock());
        aids.iter().for_each(|aid| followed.insert(aid.clone(), now));
    }

    pub fn contain(&self, aid: &Aid) -> bool {
        let followed = self.0.lock();
        !followed.is_empty() && followed.peek(aid).is_some_and(|asked| asked.elapsed() < TOLD_FOR)
    }
}

impl TaskService {
    pub(crate) async fn assigned(
        self: Arc<Self>,
        _: Caller,
        Assigned { aids, after, limit }: Assigned,
    ) -> Result<AssignedTasks, Error> {
        let limit = PAGE.of(limit)?;
        if !(1..=MOST_AIDS).contains(&aids.len()) {
            return Err(Error::Param(format!("aids must have 1 to {MOST_AIDS} agents")));
        }
        // Before it is read: what changes afterwards is told.
        self.followed.add(&aids);
        let after = after.as_ref().map_or("", |after| after.as_str());
        let aids: BTreeSet<Aid> = aids.into_iter().collect();
        // One more tells whether there is another page.
        let mut tasks = self.store.assigned(&aids, after, limit + 1).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = tasks.len() > most;
        tasks.truncate(most);
        Ok(AssignedTasks { tasks, has_more })
    }
}
