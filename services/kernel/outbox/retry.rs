//! When a destination that could not be sent to is tried again, and when a row is given up.

use crate::{BackoffSchedule, Ids};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub enum Retry {
    /// The destination is tried until it answers, or until its rows expire. With `demand`, a row that is added while it waits has it
    /// tried at least this soon.
    Destination { schedule: BackoffSchedule, demand: Option<Duration> },
    /// The first row is tried once, and again after each of these waits. Then it is given up, and the next one is tried.
    Row(&'static [Duration]),
}

impl Retry {
    /// How long to wait after so many failures in a row; `None` where the row is given up.
    pub(super) fn wait_ms(&self, failures: i64, ids: &Ids) -> Option<i64> {
        let wait = match self {
            Retry::Destination { schedule, .. } => ids.jitter(schedule.after(failures)),
            Retry::Row(waits) => *waits.get(usize::try_from(failures - 1).ok()?)?,
        };
        Some(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX / 2))
    }

    /// Whether a failure after so many before gives the row up.
    pub(super) fn is_last(&self, failures: i64) -> bool {
        matches!(self, Retry::Row(waits) if failures >= waits.len() as i64)
    }

    /// Whether failures are those of a row, and not of the destination.
    pub(super) fn is_of_row(&self) -> bool {
        matches!(self, Retry::Row(_))
    }

    pub(super) fn demand_ms(&self) -> Option<i64> {
        match self {
            Retry::Destination { demand, .. } => {
                demand.and_then(|demand| i64::try_from(demand.as_millis()).ok())
            }
            Retry::Row(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_row_is_tried_so_often_and_a_destination_until_it_answers() {
        const WAITS: &[Duration] = &[SECOND, Duration::from_secs(5)];
        let (ids, row) = (Ids::default(), Retry::Row(WAITS));
        let waits: Vec<Option<i64>> = (1..=4).map(|failures| row.wait_ms(failures, &ids)).collect();
        assert_eq!(waits, [Some(1000), Some(5000), None, None]);
        assert_eq!([row.is_last(0), row.is_last(1), row.is_last(2)], [false, false, true]);

        let schedule = BackoffSchedule::new(SECOND, 10 * SECOND);
        let destination = Retry::Destination { schedule, demand: None };
        for (failures, most) in [(1, 1000), (2, 2000), (4, 8000), (5, 10_000), (1000, 10_000)] {
            let wait = destination.wait_ms(failures, &ids).unwrap();
            assert!((most / 2..=most).contains(&wait), "{wait} after {failures}");
            assert!(!destination.is_last(failures));
        }
    }
}
