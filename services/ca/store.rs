//! Every SQL statement of `ca.*`.

mod lapsed;
mod pins;
mod revocations;
mod trust;

pub(super) use pins::{IssuerPin, MOST_PINS_OF_A_ROOT};
pub(super) use revocations::RevocationScope;
pub(super) use trust::{MOST_ROOTS, RootChange, RootChangeOutcome, SignedTrustList, TrustRoot};

use super::GRACE_SECONDS;
use certs::Certificate;
use kernel::Db;
use sqlx::{Any, Transaction};

/// A certificate and its lifecycle state.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct CertificateRow {
    pub serial: String,
    pub aid: String,
    pub curve: String,
    pub key_purpose: String,
    pub state: String,
    pub not_before: i64,
    pub not_after: i64,
    pub deactivated_at: Option<i64>,
    pub revoked_at: Option<i64>,
    pub reason: Option<String>,
    pub fingerprint: String,
    pub spki_fingerprint: String,
    pub pem: String,
}

/// A line of the revocation list.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct RevokedRow {
    pub serial: String,
    pub revoked_at: Option<i64>,
    pub reason: Option<String>,
}

/// A certificate that was signed and waits to be stored.
#[derive(Clone, Debug)]
pub(super) struct NewCertificate {
    pub row: CertificateRow,
    /// Milliseconds: orders the certificates of one name.
    pub issued_at: i64,
    /// A further certificate of a name that exists, rather than the first one of a new name.
    pub additional: bool,
}

/// What became of a request for a name.
#[derive(Clone, Debug)]
pub(super) enum ClaimOutcome {
    New,
    /// The same key has it already: this is its certificate.
    Same(Box<CertificateRow>),
    OtherKey,
    Revoked,
    /// It lapsed, and something of its last holder is still kept.
    Kept,
}

impl CertificateRow {
    pub fn new(certificate: &Certificate, aid: &str, key_purpose: &str) -> CertificateRow {
        CertificateRow {
            serial: certificate.serial().to_owned(),
            aid: aid.to_owned(),
            curve: certificate.public_key().curve().as_str().to_owned(),
            key_purpose: key_purpose.to_owned(),
            state: "active_signing".to_owned(),
            not_before: certificate.not_before(),
            not_after: certificate.not_after(),
            deactivated_at: None,
            revoked_at: None,
            reason: None,
            fingerprint: certificate.fingerprint().to_owned(),
            spki_fingerprint: certificate.public_key().fingerprint(),
            pem: certificate.pem().to_owned(),
        }
    }

    /// Whether it expired so long ago that it cannot be renewed: then it is nobody's current certificate.
    pub fn has_lapsed(&self, now: i64) -> bool {
        self.not_after + GRACE_SECONDS < now
    }

    /// The state that is answered: time alone turns an active certificate into an expired one.
    pub fn lifecycle(&self, now: i64) -> &str {
        if self.state == "active_signing" && now > self.not_after { "expired" } else { &self.state }
    }
}

const COLUMNS: &str = "SELECT serial, aid, curve, key_purpose, state, not_before, not_after, deactivated_at, revoked_at, \
                       reason, fingerprint, spki_fingerprint, pem FROM certificates";

/// One text per query, made of the columns and a literal condition.
macro_rules! select {
    ($condition:literal) => {
        sqlx::query_as::<Any, CertificateRow>(sqlx::AssertSqlSafe(format!("{COLUMNS} {}", $condition)))
    };
}

pub(super) struct Store {
    db: Db,
}

impl Store {
    pub fn new(db: Db) -> Store {
        Store { db }
    }

    /// Stores a group of new certificates in one transaction, each only if its name is free for its key.
    pub async fn claim_all(&self, claims: Vec<NewCertificate>) -> sqlx::Result<Vec<ClaimOutcome>> {
        let mut tx = self.db.write().await?;
        let mut outcomes = Vec::with_capacity(claims.len());
        for claim in &claims {
            outcomes.push(claim_one(&mut tx, claim).await?);
        }
        tx.commit().await?;
        Ok(outcomes)
    }

    /// Stores a further certificate of a name, only if the one that its agent logs in with is active. That one is locked first: of
    /// a revocation and this, one waits for the other, and either this sees that it was revoked, or the revocation sees
    /// the new certificate. A transaction of its own, because of several locks in one another process could wait for the second.
    pub async fn claim_further(&self, claim: &NewCertificate) -> sqlx::Result<ClaimOutcome> {
        let mut tx = self.db.begin().await?;
        let locked = sqlx::query(
            "UPDATE certificates SET state = state
             WHERE aid = $1 AND curve = 'P-256' AND key_purpose = 'signing' AND state = 'active_signing'",
        )
        .bind(claim.row.aid.as_str())
        .execute(&mut *tx)
        .await?;
        if locked.rows_affected() == 0 {
            return Ok(ClaimOutcome::Revoked);
        }
        let outcome = claim_one(&mut tx, claim).await?;
        self.db.commit(tx).await?;
        Ok(outcome)
    }

    /// Replaces the active certificate `old` by `new`, or changes nothing if `old` is not active any more.
    pub async fn replace(&self, old: &str, new: &NewCertificate) -> sqlx::Result<bool> {
        let mut tx = self.db.begin().await?;
        let demoted = sqlx::query(
            "UPDATE certificates SET state = 'verify_only', deactivated_at = $2, replaced_by = $3
             WHERE serial = $1 AND state = 'active_signing'",
        )
        .bind(old)
        .bind(new.issued_at / 1000)
        .bind(new.row.serial.as_str())
        .execute(&mut *tx)
        .await?;
        if demoted.rows_affected() == 0 {
            return Ok(false);
        }
        // Another certificate of the new one's kind was faster: then the old one stays, too.
        if !insert(&mut tx, new).await? {
            return Ok(false);
        }
        self.db.commit(tx).await?;
        Ok(true)
    }

    pub async fn by_serial(&self, serial: &str) -> sqlx::Result<Option<CertificateRow>> {
        select!("WHERE serial = $1").bind(serial).fetch_optional(self.db.read()).await
    }

    /// The certificates of a name, newest first.
    pub async fn of_aid(&self, aid: &str) -> sqlx::Result<Vec<CertificateRow>> {
        select!("WHERE aid = $1 ORDER BY issued_at DESC, serial").bind(aid).fetch_all(self.db.read()).await
    }

    /// The active certificates of a name: at most one of each curve and purpose.
    pub async fn active_of(&self, aid: &str) -> sqlx::Result<Vec<CertificateRow>> {
        select!("WHERE aid = $1 AND state = 'active_signing' ORDER BY issued_at DESC, serial")
            .bind(aid)
            .fetch_all(self.db.read())
            .await
    }

    /// The active certificate of a name. Without a curve it is the one on P-256 that every agent has, or that of a service;
    /// without a purpose it is not one for TLS.
    pub async fn current(
        &self,
        aid: &str,
        curve: Option<&str>,
        key_purpose: Option<&str>,
    ) -> sqlx::Result<Option<CertificateRow>> {
        select!(
            "WHERE aid = $1 AND state = 'active_signing'
                 AND (curve = $2 OR ($2 = '' AND (curve = 'P-256' OR key_purpose = 'service')))
                 AND (key_purpose = $3 OR ($3 = '' AND key_purpose <> 'tls'))
             ORDER BY issued_at DESC, serial LIMIT 1"
        )
        .bind(aid)
        .bind(curve.unwrap_or_default())
        .bind(key_purpose.unwrap_or_default())
        .fetch_optional(self.db.read())
        .await
    }

    /// The newest certificate of a name whose fingerprint, or whose key's, begins with these lower-case hex digits. Found by
    /// an index, however many certificates the name has had.
    pub async fn by_fingerprint(
        &self,
        aid: &str,
        digits: &str,
        key_purpose: Option<&str>,
    ) -> sqlx::Result<Option<CertificateRow>> {
        // No hex digit comes after `f`, so this is every text that begins with the digits.
        let (from, before) = (format!("sha256:{digits}"), format!("sha256:{digits}g"));
        let of_certificate = select!(
            "WHERE fingerprint >= $2 AND fingerprint < $3 AND aid = $1 AND (key_purpose = $4 OR $4 = '')
             ORDER BY issued_at DESC, serial LIMIT 1"
        );
        let of_key = select!(
            "WHERE spki_fingerprint >= $2 AND spki_fingerprint < $3 AND aid = $1
                 AND (key_purpose = $4 OR $4 = '')
             ORDER BY issued_at DESC, serial LIMIT 1"
        );
        for query in [of_certificate, of_key] {
            let query = query.bind(aid.to_owned()).bind(from.clone()).bind(before.clone());
            let query = query.bind(key_purpose.unwrap_or_default().to_owned());
            if let Some(row) = query.fetch_optional(self.db.read()).await? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// When a name got the certificate that was `many` ago, if it got that many after this time; all in milliseconds.
    pub async fn issued_in(&self, aid: &str, after: i64, many: i64) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar(
            "SELECT issued_at FROM certificates WHERE aid = $1 AND issued_at > $2
             ORDER BY issued_at DESC LIMIT 1 OFFSET $3",
        )
        .bind(aid)
        .bind(after)
        .bind(many - 1)
        .fetch_optional(self.db.read())
        .await
    }

    /// How many certificates the revocation list has, by the same rule as [`Store::revoked`].
    pub async fn count_revoked(&self, expired_before: i64) -> sqlx::Result<i64> {
        sqlx::query_scalar(
            "SELECT CAST(COUNT(*) AS BIGINT) FROM certificates WHERE state = 'revoked' AND not_after >= $1",
        )
        .bind(expired_before)
        .fetch_one(self.db.read())
        .await
    }

    /// What the revocation list says of each certificate; one that expired before this second is not on it any more.
    pub async fn revoked(&self, expired_before: i64) -> sqlx::Result<Vec<RevokedRow>> {
        sqlx::query_as(
            "SELECT serial, revoked_at, reason FROM certificates WHERE state = 'revoked' AND not_after >= $1
             ORDER BY revoked_at, serial",
        )
        .bind(expired_before)
        .fetch_all(self.db.read())
        .await
    }

    pub async fn count_by_state(&self) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as(
            "SELECT state, CAST(COUNT(*) AS BIGINT) FROM certificates GROUP BY state ORDER BY state",
        )
        .fetch_all(self.db.read())
        .await
    }
}

async fn claim_one(tx: &mut Transaction<'static, Any>, claim: &NewCertificate) -> sqlx::Result<ClaimOutcome> {
    let held = rows_of(tx, claim).await?;
    match decide(&held, claim) {
        Decision::Insert => {}
        // A further certificate replaces one of the same holder.
        Decision::Replace(_) if !claim.additional && !lapsed::is_free(tx, claim).await? => {
            return Ok(ClaimOutcome::Kept);
        }
        Decision::Replace(expired) => {
            let replaced = sqlx::query(
                "UPDATE certificates SET state = 'expired' WHERE serial = $1 AND state = 'active_signing'",
            )
            .bind(expired)
            .execute(&mut **tx)
            .await?;
            // Revoked between our look and this: then it stays so.
            if replaced.rows_affected() == 0 {
                return Ok(ClaimOutcome::Revoked);
            }
        }
        Decision::Answer(claim) => return Ok(claim),
    }
    if insert(tx, claim).await? {
        return Ok(ClaimOutcome::New);
    }
    // Another process stored the name between our look and our insert.
    let held = rows_of(tx, claim).await?;
    Ok(match decide(&held, claim) {
        Decision::Answer(claim) => claim,
        Decision::Insert | Decision::Replace(_) => ClaimOutcome::OtherKey,
    })
}

enum Decision {
    Insert,
    /// The certificate of this serial expired long ago and is replaced.
    Replace(String),
    Answer(ClaimOutcome),
}

fn decide(held: &[CertificateRow], claim: &NewCertificate) -> Decision {
    let new = &claim.row;
    if held.iter().any(|row| row.state == "revoked") && !held.iter().any(|row| row.state == "active_signing")
    {
        return Decision::Answer(ClaimOutcome::Revoked);
    }
    let same_kind = held.iter().find(|row| row.state == "active_signing" && row.curve == new.curve);
    match same_kind {
        Some(row) if row.has_lapsed(claim.issued_at / 1000) => Decision::Replace(row.serial.clone()),
        Some(row) if row.spki_fingerprint == new.spki_fingerprint => {
            Decision::Answer(ClaimOutcome::Same(Box::new(row.clone())))
        }
        Some(_) => Decision::Answer(ClaimOutcome::OtherKey),
        None if held.is_empty() || claim.additional => Decision::Insert,
        None => Decision::Answer(ClaimOutcome::OtherKey),
    }
}

/// What [`decide`] needs of the certificates of a name, however many there are: the active ones or, where there is none,
/// one that was revoked or else any.
async fn rows_of(
    tx: &mut Transaction<'static, Any>,
    claim: &NewCertificate,
) -> sqlx::Result<Vec<CertificateRow>> {
    let queries = [
        select!("WHERE aid = $1 AND key_purpose = $2 AND state = 'active_signing'"),
        select!("WHERE aid = $1 AND key_purpose = $2 AND state = 'revoked' LIMIT 1"),
        select!("WHERE aid = $1 AND key_purpose = $2 LIMIT 1"),
    ];
    for query in queries {
        let query = query.bind(claim.row.aid.clone()).bind(claim.row.key_purpose.clone());
        let rows = query.fetch_all(&mut **tx).await?;
        if !rows.is_empty() {
            return Ok(rows);
        }
    }
    Ok(Vec::new())
}

/// False if the name has an active certificate of this kind already.
async fn insert(tx: &mut Transaction<'static, Any>, new: &NewCertificate) -> sqlx::Result<bool> {
    let row = &new.row;
    let inserted = sqlx::query(
        "INSERT INTO certificates (serial, aid, curve, key_purpose, state, not_before, not_after, issued_at,
             fingerprint, spki_fingerprint, pem)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING",
    )
    .bind(row.serial.as_str())
    .bind(row.aid.as_str())
    .bind(row.curve.as_str())
    .bind(row.key_purpose.as_str())
    .bind(row.state.as_str())
    .bind(row.not_before)
    .bind(row.not_after)
    .bind(new.issued_at)
    .bind(row.fingerprint.as_str())
    .bind(row.spki_fingerprint.as_str())
    .bind(row.pem.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(inserted.rows_affected() == 1)
}
