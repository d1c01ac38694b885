//! What is removed: conversations that nobody has changed for long, pictures that no message has used, and everything of an agent whose AID
//! has ended.

use super::pictures::PicturePath;
use crate::RunService;
use crate::error::Error;
use crate::model::call::{CallAccess, RunOperation};
use crate::model::thread::ThreadRow;
use kernel::{Aid, RemoveAgent, RpcError};

const DAY_MS: i64 = 86_400_000;
const AT_ONCE: i64 = 50;

impl RemoveAgent for RunService {
    async fn remove_agent(&self, aid: &Aid, _: i64) -> Result<(), RpcError> {
        self.remove_front_end_of(aid.as_str()).await?;
        Ok(())
    }
}

impl RunService {
    async fn remove_front_end_of(&self, aid: &str) -> Result<(), Error> {
        loop {
            let threads = self.store.threads_of(aid, AT_ONCE).await?;
            if threads.is_empty() {
                break;
            }
            for thread in threads {
                self.remove_thread(thread).await?;
            }
        }
        loop {
            let pictures = self.store.pictures_of(aid, AT_ONCE).await?;
            if pictures.is_empty() {
                break;
            }
            self.remove_pictures(pictures).await?;
        }
        Ok(self.store.remove_time_zone(aid).await?)
    }

    /// Conversations whose retention is over, and pictures that were never used.
    pub(crate) async fn remove_old_conversations(&self, now: i64) -> Result<(), Error> {
        let before = now - i64::from(self.settings.agui.retention_days) * DAY_MS;
        for thread in self.store.threads_before(before, AT_ONCE).await? {
            self.remove_thread(thread).await?;
        }
        let unused = self.store.unused_pictures(now - DAY_MS, AT_ONCE).await?;
        self.remove_pictures(unused).await
    }

    /// Its run is cancelled and its session expires; both are removed after their own retention. The pictures of its messages go with it.
    async fn remove_thread(&self, thread: ThreadRow) -> Result<(), Error> {
        let cancel = RunOperation::CancelRun { reason: Some("the conversation was removed".to_owned()) };
        match self.submit(&thread.run_id, CallAccess::System, cancel).await {
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.store.expire_session(&thread.session_id, self.clock.now_ms()).await?;
        let pictures = self.store.pictures_of_thread(&thread.id).await?;
        self.remove_pictures(pictures).await?;
        Ok(self.store.remove_thread(&thread).await?)
    }

    async fn remove_pictures(&self, paths: Vec<String>) -> Result<(), Error> {
        for path in paths {
            if let Some(file) = PicturePath::parse(&path) {
                self.front_ends.pictures.remove(&file).await.map_err(RpcError::internal)?;
            }
            self.store.remove_picture(&path).await?;
        }
        Ok(())
    }
}
