//! How far a service has got, in the one row of the table `agent_removal` of its own database: what it kept for agents that ended before
//! this second is removed.

use crate::Db;

pub(super) async fn read(db: &Db) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT done_until FROM agent_removal").fetch_one(db.read()).await
}

/// Several processes may do the same work: the position never goes back.
pub(super) async fn advance(db: &Db, done_until: i64) -> sqlx::Result<()> {
    let query = sqlx::query("UPDATE agent_removal SET done_until = $1 WHERE done_until < $1");
    db.counted(query.bind(done_until).execute(db.write_alone())).await.map(drop)
}
