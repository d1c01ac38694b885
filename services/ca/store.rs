//! Every SQL statement of `ca.*`.

mod trust;

pub(super) use trust::{MOST_ROOTS, RootChange, RootChangeOutcome, SignedTrustList, TrustRoot};

use super::GRACE_SECONDS;
use crate::kernel::Db;
use certs::Certificate;
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

    /// Marks certificates as revoked; those that are already keep their first reason and time.
    pub async fn revoke(&self, serials: &[String], at: i64, reason: &str) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        for serial in serials {
            sqlx::query(
                "UPDATE certificates SET state = 'revoked', revoked_at = $2, reason = $3
                 WHERE serial = $1 AND state <> 'revoked'",
            )
            .bind(serial.as_str())
            .bind(at)
            .bind(reason)
            .execute(&mut *tx)
            .await?;
        }
        self.db.commit(tx).await
    }

    pub async fn by_serial(&self, serial: &str) -> sqlx::Result<Option<CertificateRow>> {
        select!("WHERE serial = $1").bind(serial).fetch_optional(self.db.read()).await
    }

    /// The certificates of a name, newest first.
    pub async fn of_aid(&self, aid: &str) -> sqlx::Result<Vec<CertificateRow>> {
        select!("WHERE aid = $1 ORDER BY issued_at DESC, serial").bind(aid).fetch_all(self.db.read()).await
    }

    pub async fn revoked(&self) -> sqlx::Result<Vec<CertificateRow>> {
        select!("WHERE state = 'revoked' ORDER BY revoked_at, serial").fetch_all(self.db.read()).await
    }

    /// Agents without a certificate that is not revoked, and their last revocation: those after this second and this AID,
    /// or with the AID empty, from this second on.
    pub async fn revoked_agents(
        &self,
        since: i64,
        aid: &str,
        limit: i64,
    ) -> sqlx::Result<Vec<(String, i64)>> {
        sqlx::query_as(
            "SELECT c.aid, MAX(c.revoked_at) FROM certificates c
             WHERE c.state = 'revoked' AND c.revoked_at >= $1 AND c.key_purpose NOT IN ('service', 'tls', 'login')
                 AND NOT EXISTS (SELECT 1 FROM certificates o WHERE o.aid = c.aid AND o.state <> 'revoked')
             GROUP BY c.aid HAVING MAX(c.revoked_at) > $1 OR c.aid > $2
             ORDER BY MAX(c.revoked_at), c.aid LIMIT $3",
        )
        .bind(since)
        .bind(aid)
        .bind(limit)
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
        Decision::Replace(expired) => {
            sqlx::query("UPDATE certificates SET state = 'expired' WHERE serial = $1")
                .bind(expired)
                .execute(&mut **tx)
                .await?;
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
        Some(row) if row.not_after + GRACE_SECONDS < claim.issued_at / 1000 => {
            Decision::Replace(row.serial.clone())
        }
        Some(row) if row.spki_fingerprint == new.spki_fingerprint => {
            Decision::Answer(ClaimOutcome::Same(Box::new(row.clone())))
        }
        Some(_) => Decision::Answer(ClaimOutcome::OtherKey),
        None if held.is_empty() || claim.additional => Decision::Insert,
        None => Decision::Answer(ClaimOutcome::OtherKey),
    }
}

async fn rows_of(
    tx: &mut Transaction<'static, Any>,
    claim: &NewCertificate,
) -> sqlx::Result<Vec<CertificateRow>> {
    select!("WHERE aid = $1 AND key_purpose = $2")
        .bind(claim.row.aid.clone())
        .bind(claim.row.key_purpose.clone())
        .fetch_all(&mut **tx)
        .await
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
