//! `search.suggest`: how what somebody begins to type may go on.

use super::index::words::normalised;
use super::{Error, SearchService};
use kernel::{Caller, PageLimit};
use proto_schemas::requests::search::{Suggest, Suggestion, Suggestions};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(10, 20);
const MOST_CHARS: usize = 64;

impl SearchService {
    /// Agents first, then tags, then what others asked; for an empty prefix the tags that are used most.
    pub(super) async fn suggest(self: Arc<Self>, _: Caller, params: Suggest) -> Result<Suggestions, Error> {
        self.enabled()?;
        let limit = usize::try_from(PAGE.of(params.limit).map_err(Error::query)?).unwrap_or_default();
        let prefix = params.prefix.unwrap_or_default();
        if prefix.chars().count() > MOST_CHARS {
            return Err(Error::query(format!("prefix must have at most {MOST_CHARS} characters")));
        }
        let prefix = normalised(&prefix);
        let (index, hidden, typed) = (self.index(), self.peer_states.get(), prefix.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let agents = match typed.is_empty() {
                true => Vec::new(),
                false => index.suggest_agents(&typed, &hidden.hidden, limit)?,
            };
            Ok((agents, index.suggest_tags(&typed, &hidden.hidden, limit)?))
        });
        let (agents, tags) =
            looking.await.map_err(|error| Error::Index(error.into()))?.map_err(Error::Index)?;
        let queries = if prefix.is_empty() { Vec::new() } else { self.query_stats.beginning_with(&prefix) };

        let suggestion = |kind: &str, value: String| Suggestion { kind: kind.to_owned(), value };
        let agents = agents.into_iter().map(|aid| suggestion("aid", aid));
        let tags = tags.into_iter().map(|(tag, _)| suggestion("tag", tag));
        let queries = queries.into_iter().map(|query| suggestion("query", query));
        Ok(Suggestions { suggestions: agents.chain(tags).chain(queries).take(limit).collect() })
    }
}
