//! What a recall comes to, and on PostgreSQL its transaction.

use super::append::write_changed;
use super::desk::{self, Desk};
use super::events;
use super::ledger::{Changes, Done, Draft, Outcome, Recall};
use super::letter::{Key, Kind, Letter};
use super::mail::Mail;
use super::post::{call, passes};
use super::store::read;
use crate::kernel::Aid;
use sqlx::{Any, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Recall {
    /// What becomes of one of the letters.
    pub fn judge(&self, letter: Option<&Letter>) -> Outcome {
        match letter {
            None => Outcome::NotFound,
            Some(letter) if letter.recalled_at.is_some() => Outcome::AlreadyRecalled,
            Some(letter) if matches!(letter.kind, Kind::Queue | Kind::Recall) => Outcome::NotFound,
            Some(letter) if letter.at < self.since => Outcome::Expired,
            Some(_) => Outcome::Recalled,
        }
    }

    /// A new row for each inbox that had one of these, so that devices that have read them learn of it, too.
    pub fn notices(&self, taken: &[Arc<Letter>]) -> Vec<Draft> {
        let mut recipients: BTreeMap<&Aid, Vec<&Arc<Letter>>> = BTreeMap::new();
        for letter in taken {
            recipients.entry(&letter.to).or_default().push(letter);
        }
        let notice = |((to, letters), message_id): ((&Aid, Vec<&Arc<Letter>>), &String)| {
            let ids: Vec<String> = letters.iter().map(|letter| letter.message_id.clone()).collect();
            events::notice(self, to, message_id, &ids, &letters)
        };
        recipients.into_iter().zip(&self.notice_ids).map(notice).collect()
    }
}

impl Desk {
    /// Tried again while others are in the way.
    pub(super) async fn recall(&self, recall: &Recall) -> sqlx::Result<Done> {
        let mut attempt = 1;
        loop {
            match self.try_recall(recall).await {
                Err(error) if attempt < desk::TRIES && passes(&error) => attempt += 1,
                other => return other,
            }
        }
    }

    async fn try_recall(&self, recall: &Recall) -> sqlx::Result<Done> {
        let keys: Vec<Key> = recall.message_ids.iter().map(|id| Key::new(&recall.from, id)).collect();
        let found = self.store.find_all(&keys).await?;
        let mut tx = self.store.db().write().await?;
        let (mut outcomes, mut taken) = (Vec::with_capacity(keys.len()), Vec::<Arc<Letter>>::new());
        for (message_id, key) in recall.message_ids.iter().zip(keys) {
            let letter = match (taken.iter().find(|letter| letter.key == key), found.get(&key)) {
                (Some(taken), _) => Some(taken.clone()),
                (None, Some(found)) => locked(&mut tx, found.id).await?,
                (None, None) => None,
            };
            let outcome = recall.judge(letter.as_deref());
            if let (Outcome::Recalled, Some(letter)) = (outcome, letter) {
                taken.push(Arc::new(letter.recalled(recall.now)));
            }
            outcomes.push((message_id.clone(), outcome));
        }
        write_changed(&mut tx, &taken).await?;
        let notices = recall.notices(&taken).into_iter().map(|notice| (notice, Changes::default()));
        let mut mail = Mail::new(notices.collect());
        let open = mail.open();
        if !open.is_empty() {
            let numbers = call(&mut tx, mail.sheet(&open)).await?.numbers()?;
            mail.number(&open, numbers);
        }
        tx.commit().await?;
        self.told(mail).await;
        Ok(Done::Recalled(outcomes))
    }
}

/// The letter as it is now, and nobody else changes it before we are done.
async fn locked(tx: &mut Transaction<'static, Any>, id: i64) -> sqlx::Result<Option<Arc<Letter>>> {
    let data: Option<String> = sqlx::query_scalar("SELECT data FROM letter WHERE id = $1 FOR UPDATE")
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    data.map(|data| read(id, &data)).transpose()
}
