//! Reads what a batch of calls is about, in a handful of statements, and keeps others from changing it until the commit.

use super::Store;
use super::row::{READ, StoredTask, aid, damaged, task_id};
use super::wanted::LoadWanted;
use crate::model::event::EVENT_CONTENT_BYTES;
use crate::model::state::TaskState;
use crate::model::tree::{ArtifactRow, OpenTasks, StoredAnswer, StoredInput, Trees};
use kernel::Statements;
use kernel::json_rows::{self as json, Column};
use kernel::{Aid, Engine, KeptRow, iso};
use proto_schemas::requests::task::TaskId;
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::{AnyConnection, AssertSqlSafe};
use std::collections::BTreeSet;

const PAIR: [Column; 3] = [("assignee", "TEXT"), ("owner", "TEXT"), ("domain", "TEXT")];
const ANSWER_KEY: [Column; 2] = [("scope", "TEXT"), ("key", "TEXT")];
const INPUT_KEY: [Column; 2] = [("task_id", "TEXT"), ("id", "TEXT")];

/// What a row that was read together with others is.
#[derive(Clone, Copy)]
enum Kind {
    Task,
    Open,
    Between,
    Answer,
    Input,
    Artifact,
    Kept,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Task, Kind::Open, Kind::Between, Kind::Answer, Kind::Input, Kind::Artifact, Kind::Kept];

    /// Whether all of its rows come back as one text, which costs less than one text per row. Kinds with large rows do not: each text
    /// is copied several times on its way.
    fn is_list(self) -> bool {
        matches!(self, Kind::Task | Kind::Open | Kind::Between | Kind::Kept)
    }

    fn read(self, row: &str, trees: &mut Trees, kept: &mut Vec<KeptRow>) -> sqlx::Result<()> {
        match self {
            Kind::Task => {
                for task in json::read::<Vec<StoredTask>>(row)? {
                    trees.insert(task.read()?);
                }
            }
            Kind::Open => {
                for OpenRow { aid: name, owned, assigned } in json::read::<Vec<_>>(row)? {
                    trees.open.insert(aid(&name)?, OpenTasks { owned, assigned });
                }
            }
            Kind::Between => {
                for row in json::read::<Vec<BetweenRow>>(row)? {
                    let (owner, assignee) = (aid(&row.owner)?, aid(&row.assignee)?);
                    if let Some(domain) = row.domain {
                        trees.open_between.domains.insert((domain, assignee.clone()), row.of_domain);
                    }
                    trees.open_between.senders.insert((owner, assignee), row.of_sender);
                }
            }
            Kind::Kept => *kept = json::read(row)?,
            Kind::Answer => {
                let AnswerRow { scope, key, body_hash, result, expires_at } = json::read(row)?;
                trees.answers.insert((scope, key), StoredAnswer { body_hash, result, expires_at });
            }
            Kind::Input => {
                let row: InputRow = json::read(row)?;
                let body = RawValue::from_string(row.body).map_err(damaged)?;
                let stored = StoredInput { from: aid(&row.from_aid)?, body };
                trees.inputs.insert((task_id(row.task_id)?, row.id), stored);
            }
            Kind::Artifact => {
                let row = json::read::<StoredArtifact>(row)?.read()?;
                trees.artifacts.entry(row.task_id.clone()).or_default().push(row);
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct AnswerRow {
    scope: String,
    key: String,
    body_hash: String,
    result: String,
    expires_at: i64,
}

#[derive(Deserialize)]
struct InputRow {
    task_id: String,
    id: String,
    from_aid: String,
    body: String,
}

#[derive(Deserialize, sqlx::FromRow)]
pub(super) struct StoredArtifact {
    task_id: String,
    position: i64,
    digest: String,
    meta: String,
    content: Option<String>,
    bytes: i64,
    created_at: i64,
}

impl StoredArtifact {
    pub fn read(self) -> sqlx::Result<ArtifactRow> {
        let mut artifact: proto_schemas::requests::task::TaskArtifact =
            serde_json::from_str(&self.meta).map_err(damaged)?;
        // Builds before this one wrote fractions of a second into `meta`.
        artifact.created_at = iso(self.created_at);
        artifact.content = self.content.map(RawValue::from_string).transpose().map_err(damaged)?;
        Ok(ArtifactRow {
            task_id: task_id(self.task_id)?,
            position: self.position,
            artifact,
            bytes: self.bytes,
            digest: self.digest,
            created_at: self.created_at,
        })
    }
}

#[derive(Deserialize)]
struct OpenRow {
    aid: String,
    owned: i64,
    assigned: i64,
}

#[derive(Deserialize)]
struct BetweenRow {
    owner: String,
    assignee: String,
    domain: Option<String>,
    of_sender: i64,
    of_domain: i64,
}

impl Store {
    /// Reads everything wanted in a transaction that writes. On SQLite nobody else writes meanwhile. On PostgreSQL the roots of the
    /// trees are locked first, in the order of their ids, then those who get new tasks, in the order of their names, and last the
    /// accounts of those who store something: two processes that are about the same wait for each other, and never both at once. What
    /// is read after that is what the other one has committed.
    pub async fn load(&self, tx: &mut AnyConnection, wanted: &LoadWanted) -> sqlx::Result<Trees> {
        if self.engine() == Engine::Postgres {
            self.lock(tx, wanted).await?;
        }
        let mut statements = Statements::new(self.engine());
        if !wanted.tasks.is_empty() {
            statements.add(json::text(&wanted.tasks)?, |ids| self.select_trees(ids));
        }
        if !wanted.agents.is_empty() {
            statements.add(json::text(&wanted.agents)?, |names| self.select_open(names));
        }
        if !wanted.pairs.is_empty() {
            statements.add_rows(&PAIR, &wanted.pairs, |pairs| self.select_between(pairs))?;
        }
        if !wanted.answers.is_empty() {
            statements.add_rows(&ANSWER_KEY, &wanted.answers, |keys| self.select_answers(keys))?;
        }
        if !wanted.inputs.is_empty() {
            statements.add_rows(&INPUT_KEY, &wanted.inputs, |keys| self.select_inputs(keys))?;
        }
        if !wanted.artifacts.is_empty() {
            statements.add(json::text(&wanted.artifacts)?, |ids| self.select_artifacts(ids));
        }
        if !wanted.payers.is_empty() {
            let keys = self.account.keys(&wanted.payers);
            statements.add(json::text(&keys)?, |keys| self.select_kept(keys));
        }
        let (mut trees, kept) = read(statements.fetch(tx).await?)?;
        if !wanted.payers.is_empty() {
            trees.kept = self.account.sums(&wanted.payers, kept);
        }
        Ok(trees)
    }

    async fn lock(&self, tx: &mut AnyConnection, wanted: &LoadWanted) -> sqlx::Result<()> {
        if !wanted.tasks.is_empty() {
            self.lock_roots(tx, &wanted.tasks, "UPDATE").await?;
        }
        if !wanted.agents.is_empty() {
            self.lock_agents(tx, &wanted.agents).await?;
        }
        if !wanted.payers.is_empty() {
            self.account.lock(tx, &wanted.payers).await?;
        }
        Ok(())
    }

    /// A task never changes its tree, so which roots there are can be read before they are locked.
    pub(super) async fn lock_roots(
        &self,
        tx: &mut AnyConnection,
        tasks: &BTreeSet<TaskId>,
        strength: &str,
    ) -> sqlx::Result<()> {
        let ids = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT id FROM task WHERE id IN (SELECT root_id FROM task WHERE id IN {ids}) ORDER BY id FOR {strength}"
        );
        sqlx::query(AssertSqlSafe(text)).bind(json::text(tasks)?).fetch_all(tx).await?;
        Ok(())
    }

    /// What is counted for each of them, and the keys of their calls, is changed by one transaction at a time.
    pub(super) async fn lock_agents(
        &self,
        tx: &mut AnyConnection,
        agents: &BTreeSet<Aid>,
    ) -> sqlx::Result<()> {
        let names = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT CAST(pg_advisory_xact_lock(number) AS TEXT) FROM (
                 SELECT DISTINCT hashtextextended(CAST(current_schema() AS TEXT) || ' ' || value, 0) AS number
                 FROM {names} AS names ORDER BY number) AS numbers"
        );
        sqlx::query(AssertSqlSafe(text)).bind(json::text(agents)?).fetch_all(tx).await?;
        Ok(())
    }

    /// The whole tree of each of these tasks.
    pub(super) async fn trees(
        &self,
        tx: &mut AnyConnection,
        tasks: &BTreeSet<TaskId>,
    ) -> sqlx::Result<Trees> {
        let mut statements = Statements::new(self.engine());
        if !tasks.is_empty() {
            statements.add(json::text(tasks)?, |ids| self.select_trees(ids));
        }
        Ok(read(statements.fetch(tx).await?)?.0)
    }

    fn select_trees(&self, parameter: usize) -> String {
        let ids = json::texts(self.engine(), parameter);
        let from = match self.engine() {
            Engine::Sqlite => {
                format!("task WHERE root_id IN (SELECT root_id FROM task WHERE id IN {ids})")
            }
            Engine::Postgres => {
                let roots = json::each(&format!("{ids} AS given"), "given.value", "task", "id");
                let roots = format!("(SELECT DISTINCT found.root_id AS root FROM {roots}) AS roots");
                json::each(&roots, "roots.root", "task", "root_id")
            }
        };
        self.select(Kind::Task, READ, &from)
    }

    fn select_open(&self, parameter: usize) -> String {
        let open = TaskState::ALL.into_iter().filter(|state| !state.is_terminal());
        let open = open.map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ");
        let columns = format!(
            "value,
             (SELECT COUNT(*) FROM task WHERE owner = names.value AND status IN ({open})),
             (SELECT COUNT(*) FROM task WHERE assignee = names.value AND status IN ({open}))"
        );
        self.select(Kind::Open, &columns, &format!("{} AS names", json::texts(self.engine(), parameter)))
    }

    /// The part of an assignee's open tasks that one sender has given it, or all senders of another domain.
    fn select_between(&self, parameter: usize) -> String {
        let rows = json::rows(self.engine(), parameter, &PAIR);
        let open = "SELECT COUNT(*) FROM task WHERE due_at IS NOT NULL AND task.assignee = given.assignee";
        let of_domain = "given.domain IS NOT NULL
             AND substr(task.owner, length(task.owner) - length(given.domain)) = '.' || given.domain";
        let columns = format!(
            "given.owner, given.assignee, given.domain, ({open} AND task.owner = given.owner), ({open} AND {of_domain})"
        );
        self.select(Kind::Between, &columns, &rows)
    }

    fn select_answers(&self, parameter: usize) -> String {
        let rows = json::rows(self.engine(), parameter, &ANSWER_KEY);
        let from = format!(
            "{rows} CROSS JOIN task_answer WHERE task_answer.scope = given.scope AND task_answer.key = given.key"
        );
        let columns = "task_answer.scope, task_answer.key, body_hash, result, expires_at";
        self.select(Kind::Answer, columns, &from)
    }

    fn select_inputs(&self, parameter: usize) -> String {
        let rows = json::rows(self.engine(), parameter, &INPUT_KEY);
        let from = format!(
            "{rows} CROSS JOIN task_message
             WHERE task_message.task_id = given.task_id AND task_message.id = given.id"
        );
        self.select(Kind::Input, "task_message.task_id, task_message.id, from_aid, body", &from)
    }

    fn select_artifacts(&self, parameter: usize) -> String {
        let columns = format!(
            "task_id, position, digest, meta,
             CASE WHEN bytes <= {EVENT_CONTENT_BYTES} THEN content END, bytes, created_at"
        );
        let ids = json::texts(self.engine(), parameter);
        let from = match self.engine() {
            Engine::Sqlite => format!("task_artifact WHERE task_id IN {ids}"),
            Engine::Postgres => {
                json::each(&format!("{ids} AS given"), "given.value", "task_artifact", "task_id")
            }
        };
        self.select(Kind::Artifact, &columns, &from)
    }

    fn select_kept(&self, parameter: usize) -> String {
        let keys = json::texts(self.engine(), parameter);
        self.select(Kind::Kept, "payer, bytes, kept_rows", &format!("account WHERE payer IN {keys}"))
    }

    fn select(&self, kind: Kind, columns: &str, from: &str) -> String {
        let data = match kind.is_list() {
            true => json::list(self.engine(), columns),
            false => json::row(self.engine(), columns),
        };
        format!("SELECT CAST({} AS BIGINT) AS kind, {data} AS data FROM {from}", kind as i64)
    }
}

fn read(rows: Vec<(i64, String)>) -> sqlx::Result<(Trees, Vec<KeptRow>)> {
    let (mut trees, mut kept) = (Trees::default(), Vec::new());
    for (number, row) in rows {
        let kind = usize::try_from(number).ok().and_then(|number| Kind::ALL.get(number));
        kind.ok_or_else(|| damaged("a kind of row that is none"))?.read(&row, &mut trees, &mut kept)?;
    }
    for artifacts in trees.artifacts.values_mut() {
        artifacts.sort_unstable_by_key(|row| row.position);
    }
    Ok((trees, kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::keeping::{KEEPING, share};
    use kernel::{Account, Outbox};
    use sqlx::Executor as _;
    use testing::TestWorld;

    #[tokio::test]
    async fn what_belongs_to_a_task_is_found_by_an_index_before_there_are_statistics() {
        let test = TestWorld::with(&[]).await;
        if test.world.store.engine() != Engine::Postgres {
            return;
        }
        let db = test.world.busy_db("task", &sqlx::migrate!("./migrations")).await.unwrap();
        let outbox = Outbox::open(&test.world, &db, crate::store::RELAYS).await.unwrap();
        let account = Account::open(&test.world, &db, &KEEPING, share(1 << 28)).await.unwrap();
        let store = Store::new(db, outbox, account);
        // In the transaction that makes them, rows are nothing that statistics can be made of.
        let mut tx = store.begin().await.unwrap();
        tx.execute(
            "INSERT INTO task SELECT 't' || n, 't' || n, NULL, 0, 'working', 1, 'a', 'b', '[]', 'parties', 1, 'title', NULL, NULL, 1, 1, 1,
                 n, n, NULL, NULL, n FROM generate_series(1, 20000) AS n;
             INSERT INTO task_artifact SELECT 't' || n, 1, 'a', 'd', '{}', NULL, 1, n, 'b' FROM generate_series(1, 20000) AS n",
        )
        .await
        .unwrap();
        for text in [store.select_trees(1), store.select_artifacts(1)] {
            let text = format!("EXPLAIN {}", text.replace("$1", "'[\"t5\", \"t6\"]'"));
            let plan: Vec<String> =
                sqlx::query_scalar(AssertSqlSafe(text)).fetch_all(&mut *tx).await.unwrap();
            assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{plan:#?}");
        }
    }
}
