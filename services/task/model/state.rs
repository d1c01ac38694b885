//! The states of a task, and the one table of what may happen in each.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum TaskState {
    /// Waits for its assignee.
    Submitted,
    Working,
    /// Waits for its owner.
    InputRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

/// What happens to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    Accept,
    Reject,
    /// The owner says something.
    OwnerInput,
    /// Somebody else does.
    OtherInput,
    RequestInput,
    AddArtifact,
    Delegate,
    Complete,
    Fail,
    Cancel,
    /// Nothing happened for too long.
    TimeOut,
    /// Its assignee is of another domain, and cannot be told of it.
    Undeliverable,
    /// The AID of its owner ended: nobody wants it.
    OwnerEnded,
    /// The AID of its assignee ended: nobody does it.
    AssigneeEnded,
}

/// Why something may not happen to a task in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateRefusal {
    Invalid,
    AlreadyAccepted,
    InputRequired,
    Canceled,
    Rejected,
    FailureRecorded,
}

impl TaskState {
    pub const ALL: [TaskState; 7] = [
        TaskState::Submitted,
        TaskState::Working,
        TaskState::InputRequired,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::Rejected,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Submitted => "submitted",
            TaskState::Working => "working",
            TaskState::InputRequired => "input_required",
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            TaskState::Canceled => "canceled",
            TaskState::Rejected => "rejected",
        }
    }

    /// A task that has ended never changes again.
    pub fn is_terminal(self) -> bool {
        match self {
            TaskState::Submitted | TaskState::Working | TaskState::InputRequired => false,
            TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => true,
        }
    }

    /// The state after a trigger; the same one where the trigger changes something else of the task.
    pub fn after(self, trigger: Trigger) -> Result<TaskState, StateRefusal> {
        use TaskState::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
        match (self, trigger) {
            (Completed, _) => Err(StateRefusal::Invalid),
            (Failed, _) => Err(StateRefusal::FailureRecorded),
            (Canceled, _) => Err(StateRefusal::Canceled),
            (Rejected, _) => Err(StateRefusal::Rejected),

            (Submitted, Trigger::Accept) => Ok(Working),
            (Working | InputRequired, Trigger::Accept) => Err(StateRefusal::AlreadyAccepted),

            (Submitted, Trigger::Reject) => Ok(Rejected),
            (Working | InputRequired, Trigger::Reject) => Err(StateRefusal::Invalid),

            (InputRequired, Trigger::OwnerInput) => Ok(Working),
            (Submitted | Working, Trigger::OwnerInput) => Ok(self),
            (Submitted | Working | InputRequired, Trigger::OtherInput) => Ok(self),

            (Working, Trigger::RequestInput) => Ok(InputRequired),
            (Submitted | InputRequired, Trigger::RequestInput) => Err(StateRefusal::Invalid),

            (Working | InputRequired, Trigger::AddArtifact | Trigger::Delegate) => Ok(self),
            (Submitted, Trigger::AddArtifact | Trigger::Delegate) => Err(StateRefusal::Invalid),

            (Working, Trigger::Complete) => Ok(Completed),
            (InputRequired, Trigger::Complete) => Err(StateRefusal::InputRequired),
            (Submitted, Trigger::Complete) => Err(StateRefusal::Invalid),

            (Working | InputRequired, Trigger::Fail) => Ok(Failed),
            (Submitted, Trigger::Fail) => Err(StateRefusal::Invalid),

            (Submitted | Working | InputRequired, Trigger::Cancel) => Ok(Canceled),

            (Submitted, Trigger::TimeOut) => Ok(Canceled),
            (Working | InputRequired, Trigger::TimeOut) => Ok(Failed),

            // Whoever has accepted a task has heard of it.
            (Submitted, Trigger::Undeliverable) => Ok(Canceled),
            (Working | InputRequired, Trigger::Undeliverable) => Err(StateRefusal::Invalid),

            (Submitted | Working | InputRequired, Trigger::OwnerEnded) => Ok(Canceled),
            (Submitted | Working | InputRequired, Trigger::AssigneeEnded) => Ok(Failed),
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for TaskState {
    type Error = String;

    fn try_from(text: String) -> Result<TaskState, String> {
        text.parse()
    }
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for TaskState {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskState, String> {
        let known = TaskState::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or_else(|| {
            format!(
                "the status of a task must be submitted, working, input_required, completed, failed, \
                 canceled or rejected, not {text:?}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::StateRefusal as No;
    use super::TaskState::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
    use super::*;

    /// What a trigger does in `submitted`, `working` and `input_required`.
    type GridRow = (Trigger, [Result<TaskState, No>; 3]);

    /// The table of the protocol, row by row. In a final state every row is the same.
    const GRID: [GridRow; 14] = [
        (Trigger::Accept, [Ok(Working), Err(No::AlreadyAccepted), Err(No::AlreadyAccepted)]),
        (Trigger::Reject, [Ok(Rejected), Err(No::Invalid), Err(No::Invalid)]),
        (Trigger::OwnerInput, [Ok(Submitted), Ok(Working), Ok(Working)]),
        (Trigger::OtherInput, [Ok(Submitted), Ok(Working), Ok(InputRequired)]),
        (Trigger::RequestInput, [Err(No::Invalid), Ok(InputRequired), Err(No::Invalid)]),
        (Trigger::AddArtifact, [Err(No::Invalid), Ok(Working), Ok(InputRequired)]),
        (Trigger::Delegate, [Err(No::Invalid), Ok(Working), Ok(InputRequired)]),
        (Trigger::Complete, [Err(No::Invalid), Ok(Completed), Err(No::InputRequired)]),
        (Trigger::Fail, [Err(No::Invalid), Ok(Failed), Ok(Failed)]),
        (Trigger::Cancel, [Ok(Canceled), Ok(Canceled), Ok(Canceled)]),
        (Trigger::TimeOut, [Ok(Canceled), Ok(Failed), Ok(Failed)]),
        (Trigger::Undeliverable, [Ok(Canceled), Err(No::Invalid), Err(No::Invalid)]),
        (Trigger::OwnerEnded, [Ok(Canceled), Ok(Canceled), Ok(Canceled)]),
        (Trigger::AssigneeEnded, [Ok(Failed), Ok(Failed), Ok(Failed)]),
    ];

    #[test]
    fn every_cell_of_the_grid_is_as_the_protocol_has_it() {
        for (trigger, cells) in GRID {
            for (state, expected) in [Submitted, Working, InputRequired].into_iter().zip(cells) {
                assert_eq!(state.after(trigger), expected, "{trigger:?} in {state}");
            }
            let ended = [
                (Completed, No::Invalid),
                (Failed, No::FailureRecorded),
                (Canceled, No::Canceled),
                (Rejected, No::Rejected),
            ];
            for (state, refusal) in ended {
                assert!(state.is_terminal());
                assert_eq!(state.after(trigger), Err(refusal), "{trigger:?} in {state}");
            }
        }
    }

    #[test]
    fn a_state_is_read_as_it_is_written() {
        for state in TaskState::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        assert!("sleeping".parse::<TaskState>().is_err());
    }
}
