//! The frames of a link that are under way, each with the calls in it, until their answers come.

use crate::federation::answer::{Answers, Heard};
use crate::federation::frames::write_frame;
use crate::federation::job::Job;
use crate::federation::refused;
use crate::federation::trouble::refused_there;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub(super) struct Flights {
    /// By the id of the frame: ids grow, so this is the order in which they were sent.
    under_way: BTreeMap<u64, Flight>,
    last_id: u64,
    pub(super) items: usize,
    pub(super) bytes: usize,
}

/// One frame under way.
pub(super) struct Flight {
    id: u64,
    jobs: Vec<Job>,
    bytes: usize,
    at: Instant,
}

impl Flights {
    pub(super) fn new() -> Flights {
        // The hello was the first.
        Flights { under_way: BTreeMap::new(), last_id: 1, items: 0, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The next frame, with these calls in it.
    pub(super) fn begin(&mut self, mut jobs: Vec<Job>, now: Instant) -> Utf8Bytes {
        self.last_id += 1;
        let (id, frame) = (self.last_id, write_frame(self.last_id, &mut jobs, now));
        self.items += jobs.len();
        self.bytes += frame.len();
        self.under_way.insert(id, Flight { id, jobs, bytes: frame.len(), at: now });
        frame
    }

    /// The frame that was answered; nothing if it was not asked, or answered before.
    pub(super) fn take(&mut self, id: u64) -> Option<Flight> {
        let flight = self.under_way.remove(&id)?;
        self.items -= flight.jobs.len();
        self.bytes -= flight.bytes;
        Some(flight)
    }

    /// How long the first of them has been under way.
    pub(super) fn oldest(&self, now: Instant) -> Option<Duration> {
        self.under_way.values().next().map(|first| now - first.at)
    }

    pub(super) fn end_overdue(&mut self, now: Instant) {
        let jobs = self.under_way.values_mut().flat_map(|flight| &mut flight.jobs);
        jobs.filter(|job| job.deadline <= now).for_each(Job::end_late);
    }

    /// All calls that are under way, in their order.
    pub(super) fn into_jobs(self) -> Vec<Job> {
        self.under_way.into_values().flat_map(|flight| flight.jobs).collect()
    }
}

impl Flight {
    /// Tells everybody in it how it ended; `Err` if nobody can know.
    pub(super) fn end(mut self, issuer: &str, heard: &Heard<'_>) -> Result<(), String> {
        let ids = self.jobs.iter().map(|job| job.relay_id.as_str());
        let answers = match self.jobs.len() > 1 {
            true => heard.batch(issuer, self.id, ids),
            false => heard.single(issuer, ids),
        };
        let jobs = self.jobs.iter_mut();
        match answers {
            Answers::Each(outcomes) => jobs.zip(outcomes).for_each(|(job, outcome)| job.end(outcome)),
            Answers::Refused(error) => jobs.for_each(|job| job.end(Err(refused_there(issuer, &error)))),
            Answers::Odd(why) => {
                let sentence = format!("the answer of {issuer} is not understood: {why}");
                jobs.for_each(|job| job.end(Err(refused("bad_answer", &sentence))));
                return Err(sentence);
            }
        }
        Ok(())
    }
}
