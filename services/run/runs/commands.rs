//! `run.commands`: the commands of a run.

use crate::RunService;
use crate::error::Error;
use crate::shown::command_record;
use crate::store::BoundedPage;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{Commands, RunCommandPage};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(20, 100);

impl RunService {
    pub(crate) async fn commands(
        self: Arc<Self>,
        caller: Caller,
        params: Commands,
    ) -> Result<RunCommandPage, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let limit = PAGE.of(params.limit)?;
        let before = params.before_seq.unwrap_or(i64::MAX);
        let BoundedPage { items, more } = self.store.commands_before(&run.row.id, before, limit).await?;
        let shown = items.into_iter().map(|command| command_record(command, false));
        let (commands, cut) =
            that_fit(shown.collect::<Result<_, _>>()?, |command| command.payload.get().len());
        Ok(RunCommandPage { commands, has_more: more || cut })
    }
}

/// How many bytes a page has as it is shown, unless its first item alone has more. A secret that is a short text is shown as a longer one,
/// so that what is shown may have several times the bytes of what is stored.
const SHOWN_BYTES: usize = 2 << 20;

/// The first items of a page, and whether it has lost some: at least one stays, so that who reads page after page gets on.
pub(super) fn that_fit<T>(mut items: Vec<T>, bytes: impl Fn(&T) -> usize) -> (Vec<T>, bool) {
    let mut sum = 0;
    let fit = items.iter().take_while(|item| {
        sum += bytes(item);
        sum <= SHOWN_BYTES
    });
    let fit = fit.count().max(1);
    let cut = fit < items.len();
    items.truncate(fit);
    (items, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_shown_has_a_size_and_at_least_one_item() {
        let fit = |sizes: &[usize]| that_fit(sizes.to_vec(), |size| *size);
        assert_eq!(fit(&[]), (vec![], false));
        assert_eq!(fit(&[10, SHOWN_BYTES - 10]), (vec![10, SHOWN_BYTES - 10], false));
        assert_eq!(fit(&[10, SHOWN_BYTES, 10]), (vec![10], true));
        assert_eq!(fit(&[SHOWN_BYTES + 1, 10]), (vec![SHOWN_BYTES + 1], true));
        assert_eq!(fit(&[SHOWN_BYTES + 1]), (vec![SHOWN_BYTES + 1], false));
    }
}
