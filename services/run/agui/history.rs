//! `agui.history`: the messages of a calendar day of a conversation.

use super::front_end;
use crate::RunService;
use crate::error::Error;
use crate::store::MessageView;
use kernel::iso_ms;
use kernel::{Caller, RpcError};
use proto_schemas::requests::agui::{
    History, HistoryAttachment, HistoryDay, HistoryMessage, HistoryRole, HistoryScope,
};
use serde::Deserialize;
use std::sync::Arc;

/// Messages of one day that are shown: the last ones.
const MOST: i64 = 2000;

/// A picture of a message, as it is stored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredPicture {
    path: String,
    mime_type: String,
}

impl RunService {
    pub(crate) async fn agui_history(
        self: Arc<Self>,
        caller: Caller,
        params: History,
    ) -> Result<HistoryDay, Error> {
        let aid = front_end(&caller)?.aid.to_string();
        if params.before.as_deref().is_some_and(|day| !ag_ui::is_day(day)) {
            return Err(Error::RunInput("invalid before".to_owned()));
        }
        let thread = match &params.thread_id {
            Some(id) => Some(self.own_thread(&caller, id).await?),
            None => self.store.newest_thread(&aid).await?,
        };
        let mut history = HistoryDay {
            scope: HistoryScope::Day,
            thread_id: thread.as_ref().map(|thread| thread.id.clone()),
            day: None,
            has_more: false,
            messages: Vec::new(),
        };
        let Some(thread) = thread else { return Ok(history) };
        let zone = self.zone_of(&aid).await?;
        let before = match &params.before {
            Some(day) => ag_ui::day_bounds(day, &zone).map_or(i64::MIN, |(start, _)| start),
            None => i64::MAX,
        };
        let Some(newest) = self.store.newest_message(&thread.id, before).await? else { return Ok(history) };
        let day = ag_ui::day_of(newest, &zone);
        let (start, end) = ag_ui::day_bounds(&day, &zone).unwrap_or((newest, newest + 1));
        history.has_more = self.store.newest_message(&thread.id, start).await?.is_some();
        let messages = self.store.messages_of(&thread.id, (start, end.min(before)), MOST).await?;
        history.messages =
            messages.into_iter().map(|row| self.message_shown(row)).collect::<Result<_, _>>()?;
        history.day = Some(day);
        Ok(history)
    }

    fn message_shown(&self, row: MessageView) -> Result<HistoryMessage, Error> {
        let is_user = row.role == "user";
        let pictures: Vec<StoredPicture> = match &row.attachments {
            Some(text) => serde_json::from_str(text).map_err(RpcError::internal)?,
            None => Vec::new(),
        };
        let now = self.clock.now_ms();
        let pictures = pictures.into_iter().map(|picture| HistoryAttachment {
            url: self.front_ends.key.signed(&picture.path, now).url,
            mime_type: picture.mime_type,
        });
        let ui_schema = row.ui_schema.as_deref().map(serde_json::from_str).transpose();
        Ok(HistoryMessage {
            id: row.id,
            seq: row.seq,
            role: if is_user { HistoryRole::User } else { HistoryRole::Assistant },
            content: row.content,
            attachments: is_user.then(|| pictures.collect()),
            ui_schema: (!is_user).then_some(ui_schema.map_err(RpcError::internal)?),
            timestamp: iso_ms(row.created_at),
        })
    }
}
