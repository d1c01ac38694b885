//! `aund tasks watch`: what happens to tasks, from how they stand until they have ended.
//!
//! The server numbers the changes of a task, and each event has the number. Where one is missing, after a lost connection and behind a
//! full queue, the task is read again, and what it says covers everything up to its version.

use super::caller::TaskCaller;
use super::text::is_ended;
use super::watched_event::{event_text, state_line};
use crate::agent_args::AskingArgs;
use crate::show::Show;
use clap::Args;
use client::backoff::pause;
use client::{Client, Error, EventNotice, EventStream, ReceivedEvent};
use gateway::signals::Signals;
use proto_schemas::requests::task::{Get, Subscribe, TaskId, TaskObject, Unsubscribe};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a watcher that leaves waits for the answer to that.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// What one call may subscribe to.
const SUBSCRIBE_AT_ONCE: usize = 100;

#[derive(Args)]
pub(super) struct WatchTasksCommand {
    /// The ids of the tasks
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<TaskId>,
    #[command(flatten)]
    asking: AskingArgs,
}

impl WatchTasksCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = TaskCaller::new(self.asking)?;
        watch(&caller, self.tasks).await.map(drop)
    }
}

/// Shows what happens to these tasks. Gives them as they ended, or nothing if it was interrupted before.
pub(super) async fn watch(caller: &TaskCaller, mut tasks: Vec<TaskId>) -> anyhow::Result<Vec<TaskObject>> {
    let mut seen = BTreeSet::new();
    tasks.retain(|task| seen.insert(task.clone()));
    let mut signals = Signals::new()?;
    let client = tokio::select! {
        client = caller.client() => client?,
        () = signals.wait() => return Ok(Vec::new()),
    };
    let mut watcher = TaskWatcher::new(caller, client.clone(), &tasks);
    let ended = tokio::select! {
        ended = watcher.run() => Some(ended),
        () = signals.wait() => None,
    };
    if !matches!(ended, Some(Ok(()))) {
        // Those of tasks that have ended go by themselves.
        let leave = Unsubscribe { task_ids: tasks };
        let _ = timeout(LEAVE_TIMEOUT, client.request(&leave)).await;
    }
    client.close().await;
    ended.transpose()?;
    let last = watcher.tasks.into_iter().filter_map(|task| task.last);
    Ok(last.filter(|task| is_ended(&task.status)).collect())
}

struct TaskWatcher {
    client: Client,
    events: EventStream,
    show: Show,
    issuer: String,
    tasks: Vec<WatchedTask>,
}

struct WatchedTask {
    id: TaskId,
    /// The task as it was last read.
    last: Option<TaskObject>,
    /// The last version that was shown.
    version: i64,
    /// Whether it was shown as the task was read, so that all events of it are covered.
    was_read: bool,
    /// Whether something may have been missed.
    stale: bool,
    ended: bool,
}

/// What an event means to whoever has seen a version of its task.
#[derive(Debug, PartialEq)]
enum SeenVersion {
    Next,
    /// It was shown, or what was read covers it.
    Known,
    /// Others are missing before it.
    Gap,
}

impl WatchedTask {
    fn order(&self, version: i64) -> SeenVersion {
        match version - self.version {
            ..0 => SeenVersion::Known,
            // One change may have several events.
            0 if self.was_read => SeenVersion::Known,
            0 | 1 => SeenVersion::Next,
            _ => SeenVersion::Gap,
        }
    }
}

impl TaskWatcher {
    fn new(caller: &TaskCaller, client: Client, tasks: &[TaskId]) -> TaskWatcher {
        let watched = |id: &TaskId| WatchedTask {
            id: id.clone(),
            last: None,
            version: 0,
            was_read: true,
            stale: true,
            ended: false,
        };
        TaskWatcher {
            // Before anything is asked, so that nothing is missed after it is answered.
            events: client.events(),
            client,
            show: caller.show,
            issuer: caller.agent.aid.issuer().to_owned(),
            tasks: tasks.iter().map(watched).collect(),
        }
    }

    /// Until all tasks have ended.
    async fn run(&mut self) -> anyhow::Result<()> {
        self.subscribe().await?;
        let mut failed = 0;
        loop {
            match self.read_stale().await {
                Ok(()) => failed = 0,
                Err(error) if failed > 0 || self.has_shown() => {
                    let cause = error.downcast::<Error>()?;
                    if !cause.is_transient() {
                        return Err(cause.into());
                    }
                    failed += 1;
                    sleep(pause(failed - 1)).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            if self.tasks.iter().all(|task| task.ended) {
                return Ok(());
            }
            match self.events.next_notice().await? {
                EventNotice::Event(event) => self.take(&event)?,
                EventNotice::Missed => self.all_stale(),
                EventNotice::Disconnected { error, retry_in } => {
                    let error = anyhow::Error::from(error);
                    self.show.note(&format!("{error:#}; trying again in {:.1} s", retry_in.as_secs_f64()));
                }
                EventNotice::Reconnected => {
                    self.all_stale();
                    // The server remembers them; one that was set up anew or whose task moved does not.
                    if let Err(error) = self.subscribe().await
                        && !error.is_transient()
                    {
                        return Err(error.into());
                    }
                }
            }
        }
    }

    async fn subscribe(&self) -> Result<(), Error> {
        let ids: Vec<TaskId> =
            self.tasks.iter().filter(|task| !task.ended).map(|task| task.id.clone()).collect();
        for task_ids in ids.chunks(SUBSCRIBE_AT_ONCE) {
            self.client.request(&Subscribe { task_ids: task_ids.to_vec(), events: None }).await?;
        }
        Ok(())
    }

    /// Reads the tasks of which something may have been missed, and shows those that have changed.
    async fn read_stale(&mut self) -> anyhow::Result<()> {
        let (several, show) = (self.tasks.len() > 1, self.show);
        for task in self.tasks.iter_mut().filter(|task| task.stale && !task.ended) {
            let read = Get { task_id: task.id.clone(), messages_after_seq: None };
            let now = self.client.request(&read).await?;
            task.stale = false;
            task.ended = is_ended(&now.status);
            if now.version > task.version {
                (task.version, task.was_read) = (now.version, true);
                match show.json {
                    true => show.line(&serde_json::to_string(&now)?)?,
                    false => show.line(&state_line(&show, &now, several, &self.issuer))?,
                }
            }
            if task.last.is_none() && !task.ended {
                show.note(&format!("{} is watched; Ctrl-C ends", task.id));
            }
            task.last = Some(now);
        }
        Ok(())
    }

    fn take(&mut self, event: &ReceivedEvent) -> anyhow::Result<()> {
        let params = &event.params;
        let (several, show) = (self.tasks.len() > 1, self.show);
        let is_watched = |task: &&mut WatchedTask| params["task_id"] == task.id.as_str() && !task.ended;
        let Some(task) = self.tasks.iter_mut().find(is_watched) else { return Ok(()) };
        let (Some(version), true) = (params["version"].as_i64(), event.method.starts_with("event/task."))
        else {
            return Ok(());
        };
        match task.order(version) {
            SeenVersion::Known => return Ok(()),
            SeenVersion::Gap => {
                task.stale = true;
                return Ok(());
            }
            SeenVersion::Next => (task.version, task.was_read) = (version, false),
        }
        match show.json {
            true => show.frame(&event.text)?,
            false => show.line(&event_text(&show, event, several, &self.issuer))?,
        }
        // Artifacts come before the event of the end, although they have its status. What is shown at the end has to be read.
        if is_ended(params["status"].as_str().unwrap_or_default()) && event.method != "event/task.artifact" {
            task.stale = true;
        }
        Ok(())
    }

    fn all_stale(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.stale = true);
    }

    fn has_shown(&self) -> bool {
        self.tasks.iter().all(|task| task.last.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_compared_with_what_was_seen() {
        let mut task = WatchedTask {
            id: "task_1".parse().unwrap(),
            last: None,
            version: 4,
            was_read: true,
            stale: false,
            ended: false,
        };
        assert_eq!(task.order(3), SeenVersion::Known);
        assert_eq!(task.order(4), SeenVersion::Known, "what was read covers its version");
        assert_eq!(task.order(5), SeenVersion::Next);
        assert_eq!(task.order(6), SeenVersion::Gap);
        (task.version, task.was_read) = (5, false);
        assert_eq!(task.order(5), SeenVersion::Next, "another event of the same change");
        assert_eq!(task.order(4), SeenVersion::Known);
    }
}
