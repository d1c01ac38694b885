//! Tool calls: which messages are some, and how those are counted that no commit of this domain stores.

use crate::store::error::StoreError;
use crate::store::stored_message::MessageKey;
use crate::store::write::{CountChange, CountOutcome, ToolCallCount};
use crate::{Error, MessageService};
use kernel::Aid;
use proto_schemas::requests::message::Send;
use proto_schemas::tool_call::MessageMarks;

/// Whether a message counts as a tool call, by what its sender wrote in the clear.
pub(crate) fn is_tool_call(send: &Send) -> bool {
    let marks = MessageMarks {
        msg_subtype: send.msg_subtype.as_deref(),
        headers: send.headers.as_deref(),
        protected_headers: send.protected_headers.as_deref(),
        payload: Some(&send.payload),
        encrypted: send.encrypted == Some(true),
    };
    marks.is_tool_call()
}

impl MessageService {
    /// Counts a tool call that is not stored by a commit. One that is counted already is not counted twice.
    pub(crate) async fn count_tool_call(
        &self,
        from: &Aid,
        key: MessageKey,
        at: i64,
    ) -> Result<CountOutcome, Error> {
        match self.change_count(from, key, CountChange::Add { at }).await? {
            CountOutcome::TooMany { retry_after_ms } => Err(Error::TooManyToolCalls { retry_after_ms }),
            outcome => Ok(outcome),
        }
    }

    /// Takes back the count of one that was not sent after all.
    pub(crate) async fn uncount_tool_call(&self, from: &Aid, key: MessageKey) {
        if let Err(error) = self.change_count(from, key, CountChange::Remove).await {
            tracing::debug!("a tool call that was not sent stays counted for a minute: {error}");
        }
    }

    async fn change_count(
        &self,
        from: &Aid,
        key: MessageKey,
        change: CountChange,
    ) -> Result<CountOutcome, StoreError> {
        let count = ToolCallCount { from: from.clone(), key, change };
        self.ledger.count(count).await
    }
}
