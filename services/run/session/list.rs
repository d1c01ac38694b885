//! `session.list`: running and unread sessions, or all.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::known_profiles::check_slug;
use crate::session::paging::{cursor_of, read_cursor};
use crate::session::record::{reader_of, record};
use crate::store::{ListedSessions, RunSessionView};
use kernel::Caller;
use proto_schemas::requests::session::{ExecutionState, List, RunSessionPage};
use std::sync::Arc;

const DEFAULT_LIMIT: i64 = 50;
const MOST: i64 = 200;
/// How many sessions are read at once while looking for those that are shown.
const STEP: i64 = 500;
/// How often: a page may have fewer sessions than were asked for, and not be the last one.
const STEPS: usize = 4;

impl RunService {
    pub(crate) async fn session_list(
        self: Arc<Self>,
        caller: Caller,
        params: List,
    ) -> Result<RunSessionPage, Error> {
        let access = self.session_access(&caller)?;
        let filter = SessionFilter::of(&params)?;
        let reader = reader_of(params.reader_id.clone())?;
        let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MOST).contains(&limit) {
            return Err(Error::Invalid(format!("limit must be between 1 and {MOST}")));
        }
        let after = read_cursor(params.cursor.as_deref())?;

        let tenants = match &access {
            RunAccess::Tenants(own) => own.iter().map(String::as_str).collect(),
            RunAccess::Admin => self.settings.tenants.keys().map(String::as_str).collect(),
            RunAccess::Runner { .. } => Vec::new(),
        };
        let wanted = ListedSessions { tenants, reader: &reader, after, limit: filter.step(limit) };
        self.sessions_shown(wanted, &filter, usize::try_from(limit).unwrap_or_default()).await
    }

    async fn sessions_shown(
        &self,
        mut wanted: ListedSessions<'_>,
        filter: &SessionFilter,
        limit: usize,
    ) -> Result<RunSessionPage, Error> {
        let mut sessions = Vec::new();
        let mut next_cursor = None;
        for _ in 0..STEPS {
            let read = self.store.sessions(&wanted).await?;
            let is_last = i64::try_from(read.len()).is_ok_and(|read| read < wanted.limit);
            for session in read {
                // That there is one more is known only here.
                if sessions.len() == limit {
                    return Ok(RunSessionPage { sessions, next_cursor });
                }
                next_cursor = Some(cursor_of(&session));
                wanted.after = Some((session.updated_at, session.id.clone()));
                if filter.shows(&session) {
                    sessions.push(record(session));
                }
            }
            if is_last {
                return Ok(RunSessionPage { sessions, next_cursor: None });
            }
        }
        Ok(RunSessionPage { sessions, next_cursor })
    }
}

/// Which of the sessions are shown.
struct SessionFilter {
    all: bool,
    profile: Option<String>,
}

impl SessionFilter {
    fn of(params: &List) -> Result<SessionFilter, Error> {
        let all = match params.state.as_deref() {
            None | Some("default") => false,
            Some("all") => true,
            Some(_) => return Err(Error::Invalid("state must be default or all".to_owned())),
        };
        let profile = params.backend_profile.clone();
        profile.as_deref().map_or(Ok(()), check_slug)?;
        Ok(SessionFilter { all, profile })
    }

    fn shows(&self, session: &RunSessionView) -> bool {
        let is_listed =
            self.all || session.execution_state() == ExecutionState::Running || session.is_unread();
        is_listed && self.profile.as_ref().is_none_or(|profile| *profile == session.profile)
    }

    /// Where every session is shown, one more than the page has tells whether there is another page.
    fn step(&self, limit: i64) -> i64 {
        if self.all && self.profile.is_none() { limit + 1 } else { STEP }
    }
}
