//! The frames of a conversation, read from the log as it grows.

mod stream;
mod subscribe;
mod unsubscribe;

pub(super) use stream::{read_frames, run_leniently, run_strictly};

use super::accept::shown_part;
use crate::RunService;
use crate::error::Error;
use crate::model::thread::ThreadRow;
use crate::watching::RunWatch;
use ag_ui::{Frame, FrameId, LogEvent, ThreadFold};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Events that are read at once, and their bytes, unless the first alone has more.
const PAGE: i64 = 200;
const PAGE_BYTES: i64 = 1 << 20;

/// One who reads the frames of a conversation.
pub(super) struct ThreadFrames {
    run: Arc<RunService>,
    thread: ThreadRow,
    fold: ThreadFold,
    /// Of the log of the conversation's run: what has been read.
    after: i64,
    learned: HashSet<String>,
    /// The last frame that the reader has.
    has: Option<FrameId>,
    /// Only the frames of this run, and the turn that it is part of.
    only: Option<(String, String)>,
    /// Whether the last frame of the run that is read ended it.
    is_over: bool,
    watch: RunWatch,
}

/// What there was to read.
pub(super) struct ReadFrames {
    pub frames: Vec<Frame>,
    /// Whether there will be no more.
    pub is_last: bool,
    /// Whether there may be more to read at once.
    pub has_more: bool,
}

impl ThreadFrames {
    /// The frames of one run.
    pub async fn of_run(
        run: &Arc<RunService>,
        thread: ThreadRow,
        id: &str,
        has: Option<FrameId>,
    ) -> Result<ThreadFrames, Error> {
        // Before the run is read: what has not begun then begins behind this.
        let part = run.store.part(&thread.id, id).await?;
        let part = part.ok_or_else(|| Error::NotFound("run".to_owned()))?;
        let last_seq = run.store.run(&part.run_id).await?.map_or(0, |found| found.row.last_seq);
        // The rest of a turn behind an answer is shown from the start of the turn on.
        let parts = run.store.parts_of_task(&part.task_id).await?;
        let first = parts.iter().filter_map(|part| part.starts_at).min();
        let after = first.map_or(last_seq, |first| first - 1);
        let thread = ThreadRow { run_id: part.run_id.clone(), base: part.base, ..thread };
        Ok(ThreadFrames { only: Some((part.id, part.task_id)), ..ThreadFrames::new(run, thread, after, has) })
    }

    /// The frames of the active run from its start, or those behind the last one that the reader has, and then every later one.
    pub async fn of_thread(
        run: &Arc<RunService>,
        thread: ThreadRow,
        has: Option<FrameId>,
    ) -> Result<ThreadFrames, Error> {
        let last_seq = run.store.run(&thread.run_id).await?.map_or(0, |found| found.row.last_seq);
        let part = match has {
            Some(id) => run.store.part_at(&thread.id, id.seq).await?,
            None => run.store.part_at(&thread.id, thread.base.saturating_add(last_seq) + 1).await?,
        };
        let (thread, after) = match part {
            Some(part) => (
                ThreadRow { run_id: part.run_id, base: part.base, ..thread },
                part.starts_at.map_or(last_seq, |first| first - 1),
            ),
            None => (thread, last_seq),
        };
        Ok(ThreadFrames::new(run, thread, after, has))
    }

    fn new(run: &Arc<RunService>, thread: ThreadRow, after: i64, has: Option<FrameId>) -> ThreadFrames {
        ThreadFrames {
            watch: run.watched.watch(&thread.run_id),
            fold: ThreadFold::new(&thread.id, thread.base),
            run: run.clone(),
            thread,
            after,
            learned: HashSet::new(),
            has,
            only: None,
            is_over: false,
        }
    }

    /// Whether the reader has every frame of a run that is over. What is read meanwhile is read again.
    pub async fn has_everything(&mut self) -> Result<bool, Error> {
        if self.only.is_none() || self.has.is_none() {
            return Ok(false);
        }
        let begin = (self.after, self.fold.clone(), self.learned.clone());
        loop {
            let read = self.read().await?;
            if read.is_last && read.frames.is_empty() {
                return Ok(true);
            }
            if !read.frames.is_empty() || !read.has_more {
                (self.after, self.fold, self.learned) = begin;
                self.is_over = false;
                return Ok(false);
            }
        }
    }

    /// What is there now.
    pub async fn read(&mut self) -> Result<ReadFrames, Error> {
        let events = self.run.store.events_after(&self.thread.run_id, self.after, (PAGE, PAGE_BYTES)).await?;
        let mut frames = Vec::new();
        for event in &events {
            self.after = event.seq;
            if let Some(command) = &event.command_id {
                self.learn(command, event.kind == "approval_resolved").await?;
            }
            let event = LogEvent {
                seq: event.seq,
                kind: &event.kind,
                command_id: event.command_id.as_deref(),
                payload: &event.payload,
            };
            frames.extend(self.fold.push(&event));
        }
        frames.retain(|frame| self.is_wanted(frame));
        let has_more = !events.is_empty();
        let is_last = match &self.only {
            Some(_) if has_more => false,
            Some((_, task_id)) => self.is_over || self.has_ended(task_id).await?,
            None => !has_more && !self.goes_on().await?,
        };
        Ok(ReadFrames { frames, is_last, has_more })
    }

    /// Until the log has grown, or it is time to look again, at most so long.
    pub async fn changed(&mut self, most: Duration) {
        self.watch.changed(most).await;
    }

    /// The parts of a turn: before its first event, and when an answer may have begun another one.
    async fn learn(&mut self, command: &str, again: bool) -> Result<(), Error> {
        let is_other = self.only.as_ref().is_some_and(|(_, task_id)| task_id != command);
        if is_other || (!self.learned.insert(command.to_owned()) && !again) {
            return Ok(());
        }
        let parts = self.run.store.parts_of_task(command).await?;
        self.fold.learn(command, parts.iter().map(shown_part).collect());
        Ok(())
    }

    fn is_wanted(&mut self, frame: &Frame) -> bool {
        if let Some((id, _)) = &self.only {
            if frame.run_id != *id {
                return false;
            }
            self.is_over = frame.ends_run;
        }
        self.has.is_none_or(|has| frame.id > has)
    }

    /// Whether a turn has ended without a frame that says so, because its log was removed.
    async fn has_ended(&self, task_id: &str) -> Result<bool, Error> {
        let parts = self.run.store.parts_of_task(task_id).await?;
        let ends_at = parts.iter().filter_map(|part| part.ends_at).max();
        Ok(parts.is_empty() || ends_at.is_some_and(|end| self.after >= end))
    }

    /// Whether the conversation is there, perhaps in another run of the manager.
    async fn goes_on(&mut self) -> Result<bool, Error> {
        let Some(now) = self.run.store.thread(&self.thread.id).await? else { return Ok(false) };
        if now.run_id != self.thread.run_id && self.is_read_to_the_end().await? {
            self.watch = self.run.watched.watch(&now.run_id);
            self.fold = ThreadFold::new(&now.id, now.base);
            self.after = 0;
            self.thread = now;
        }
        Ok(true)
    }

    /// A run of the manager that is followed by another one has ended.
    async fn is_read_to_the_end(&self) -> Result<bool, Error> {
        let run = self.run.store.run(&self.thread.run_id).await?;
        Ok(run.is_none_or(|run| self.after >= run.row.last_seq))
    }
}
