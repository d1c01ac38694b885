//! What can go wrong in `task.*`, and the code for each.

use super::state::{StateRefusal, TaskState};
use super::task::TaskRow;
use kernel::{AccountFull, Aid, BatchError, PageLimitError, RpcError, codes};
use proto_schemas::requests::task::{ChildTask, TaskId};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A parameter whose type is right and whose value is not; the sentence names it.
    #[error("{0}")]
    Param(String),
    /// A member that is not what its method wants there: answered as one whose type is wrong.
    #[error("{path}: {sentence}")]
    Member { path: String, sentence: String },
    /// The same with a word that a program can compare.
    #[error("{sentence}")]
    Conflict { sentence: String, reason: &'static str },
    /// An agent of another domain, where this server has no way to other domains.
    #[error("{0} belongs to another domain, and federation is disabled on this server")]
    Foreign(Aid),
    #[error("task {0} not found")]
    NotFound(TaskId),
    #[error("{0}")]
    Denied(&'static str),
    #[error("only the assignee of a task may delegate a part of it")]
    DelegationDenied,
    #[error("{}", sentence(.refusal, .state))]
    State { refusal: StateRefusal, state: TaskState, version: i64 },
    #[error("expected_version does not match: the task has version {current}")]
    Version { current: i64, state: TaskState },
    #[error("a required part of the task is open")]
    Blocked(Vec<ChildTask>),
    #[error("{0}")]
    TooLarge(String),
    #[error("{}", tree_sentence(.limit, .most))]
    ChildLimit { limit: &'static str, most: usize },
    #[error("{0}")]
    TooMany(String),
    /// Somebody has as much as it may have.
    #[error(transparent)]
    Full(#[from] AccountFull),
    #[error("what is stored cannot be read: {0}")]
    Stored(serde_json::Error),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Queue(#[from] BatchError),
    #[error(transparent)]
    Other(#[from] RpcError),
}

impl Error {
    pub fn conflict(sentence: impl Into<String>, reason: &'static str) -> Error {
        Error::Conflict { sentence: sentence.into(), reason }
    }

    pub fn member(path: &str, sentence: &str) -> Error {
        Error::Member { path: path.to_owned(), sentence: sentence.to_owned() }
    }

    pub fn state(refusal: StateRefusal, task: &TaskRow) -> Error {
        Error::State { refusal, state: task.state, version: task.version }
    }

    pub fn stored(error: serde_json::Error) -> Error {
        Error::Stored(error)
    }
}

fn sentence(refusal: &StateRefusal, state: &TaskState) -> String {
    match refusal {
        StateRefusal::Invalid => format!("the task is {state}, which does not allow this"),
        StateRefusal::AlreadyAccepted => "the task is already accepted".to_owned(),
        StateRefusal::InputRequired => "the task waits for input from its owner".to_owned(),
        StateRefusal::Canceled => "the task was canceled".to_owned(),
        StateRefusal::Rejected => "the task was rejected".to_owned(),
        StateRefusal::FailureRecorded => "the task has failed".to_owned(),
    }
}

fn tree_sentence(limit: &str, most: &usize) -> String {
    match limit {
        "depth" => format!("a task can be delegated at most {most} levels deep"),
        "children" => format!("a task can have at most {most} tasks directly below it"),
        _ => format!("a tree can have at most {most} tasks below its root"),
    }
}

impl From<PageLimitError> for Error {
    fn from(error: PageLimitError) -> Error {
        Error::Param(error.to_string())
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::Param(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::Member { path, sentence } => RpcError::invalid_member(&path, sentence),
            Error::Conflict { reason, .. } => {
                RpcError::new(codes::INVALID_PARAMS, error).with("reason", reason)
            }
            Error::Foreign(ref aid) => {
                let issuer = aid.issuer().to_owned();
                RpcError::new(codes::FEDERATION_UNREACHABLE, error)
                    .with("reason", "not_forwarded")
                    .with("retryable", false)
                    .with("phase", "connect")
                    .with("target_issuer", issuer)
            }
            Error::NotFound(_) => RpcError::new(codes::task::TASK_NOT_FOUND, error),
            Error::Denied(_) => RpcError::new(codes::task::TASK_ACCESS_DENIED, error),
            Error::DelegationDenied => RpcError::new(codes::task::TASK_DELEGATION_DENIED, error),
            Error::State { refusal, state, version } => {
                let code = match refusal {
                    StateRefusal::Invalid => codes::task::TASK_STATE_INVALID,
                    StateRefusal::AlreadyAccepted => codes::task::TASK_ALREADY_ACCEPTED,
                    StateRefusal::InputRequired => codes::task::TASK_INPUT_REQUIRED,
                    StateRefusal::Canceled => codes::task::TASK_CANCELED,
                    StateRefusal::Rejected => codes::task::TASK_REJECTED,
                    StateRefusal::FailureRecorded => codes::task::TASK_FAILURE_RECORDED,
                };
                RpcError::new(code, error).with("status", state.as_str()).with("current_version", version)
            }
            Error::Version { current, state } => RpcError::new(codes::task::TASK_STATE_INVALID, error)
                .with("status", state.as_str())
                .with("current_version", current),
            Error::Blocked(ref children) => {
                let children = json!(children);
                RpcError::new(codes::task::TASK_COMPLETION_BLOCKED, error).with("children", children)
            }
            Error::TooLarge(_) => RpcError::new(codes::task::TASK_OUTPUT_TOO_LARGE, error),
            Error::ChildLimit { limit, .. } => {
                RpcError::new(codes::task::TASK_CHILD_LIMIT_EXCEEDED, error).with("limit", limit)
            }
            // The caller has to end something itself.
            Error::TooMany(_) => RpcError::new(codes::RATE_LIMITED, error).with("retryable", false),
            Error::Full(full) => full.into(),
            Error::Stored(cause) => RpcError::internal(cause),
            Error::Sql(source) => source.into(),
            Error::Queue(source) => source.into(),
            Error::Other(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_caller_has_to_end_itself_is_not_retryable() {
        let refused =
            RpcError::from(Error::TooMany("a device and slot may subscribe to 1000 tasks".to_owned()));
        assert_eq!((refused.code(), refused.data("retryable")), (-32029, Some(&json!(false))));
        assert_eq!(refused.data("retry_after_ms"), None);
    }
}
