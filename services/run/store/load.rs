//! Reads what a batch of calls is about, in a handful of statements, and keeps others from changing it until the commit.

use super::row::{
    APPROVAL_READ, COMMAND_READ, JOB_READ, RUN_READ, SESSION_READ, StoredApproval, StoredCommand, StoredJob,
    StoredRun, StoredSession, damaged,
};
use super::threads::THREAD_READ;
use super::{RunsWanted, Store};
use crate::model::run::{LoadedRun, Runs};
use crate::model::thread::ThreadRow;
use kernel::json_rows as json;
use kernel::{Aid, Engine, KeptSums, Payer, Statements};
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::BTreeSet;

/// What a row that was read together with others is.
#[derive(Clone, Copy)]
enum LoadedKind {
    Run,
    Command,
    Approval,
    Job,
    Session,
    Key,
    Event,
    Active,
    Thread,
}

impl LoadedKind {
    const ALL: [LoadedKind; 9] = [
        LoadedKind::Run,
        LoadedKind::Command,
        LoadedKind::Approval,
        LoadedKind::Job,
        LoadedKind::Session,
        LoadedKind::Key,
        LoadedKind::Event,
        LoadedKind::Active,
        LoadedKind::Thread,
    ];
}

/// A pair of names, as the parameter of a statement.
#[derive(Serialize)]
struct Pair<'a> {
    owner: &'a str,
    name: &'a str,
}

const PAIR: [json::Column; 2] = [("owner", "TEXT"), ("name", "TEXT")];

impl Store {
    /// Reads everything wanted in a transaction that writes. On SQLite nobody else writes meanwhile. On PostgreSQL the runs are locked
    /// first, in the order of their ids, then their sessions, then keys, and last the accounts of the tenants: two processes that are
    /// about the same wait for each other, and never both at once. What is read, and what is counted, is read after that.
    pub async fn load(&self, tx: &mut AnyConnection, wanted: &RunsWanted) -> sqlx::Result<Runs> {
        let kept = match self.engine() {
            Engine::Sqlite => None,
            Engine::Postgres => Some(self.lock(tx, wanted).await?),
        };
        let mut runs = read(self.statements(wanted)?.fetch(tx).await?)?;
        runs.kept = match kept {
            Some(kept) => kept,
            None => {
                let storing = wanted.storing.iter().filter_map(|id| runs.runs.get(id));
                let payers = storing.flat_map(|run| self.payers(&run.row.tenant, run.row.agent.as_deref()));
                self.kept(tx, wanted, payers.collect()).await?
            }
        };
        Ok(runs)
    }

    /// What is kept for those who pay for the calls. On PostgreSQL their accounts are locked from here on.
    async fn kept(
        &self,
        tx: &mut AnyConnection,
        wanted: &RunsWanted,
        mut payers: BTreeSet<Payer>,
    ) -> sqlx::Result<KeptSums> {
        payers.extend(wanted.payers.iter().cloned());
        match payers.is_empty() {
            true => Ok(KeptSums::default()),
            false => self.account.read(tx, &payers).await,
        }
    }

    /// Who pays for what is stored for a run: its tenant, and the agent whose conversation it is.
    fn payers(&self, tenant: &str, agent: Option<&str>) -> impl Iterator<Item = Payer> {
        let agent = agent.and_then(|aid| Aid::parse(aid).ok()).map(|aid| self.account.payer_of(aid));
        [Payer::tenant(tenant)].into_iter().chain(agent)
    }

    /// Locks what the calls are about, and gives what is kept for those who pay. A call that logs an event changes an account, too, by the
    /// number of events in the row of its run: so every account is locked here, in one order, and not where the rows are written.
    async fn lock(&self, tx: &mut AnyConnection, wanted: &RunsWanted) -> sqlx::Result<KeptSums> {
        let mut payers = BTreeSet::new();
        if !wanted.runs.is_empty() {
            let ids = self.is_one_of("id", 1);
            let text = format!("SELECT id, tenant, agent FROM run WHERE {ids} ORDER BY id FOR UPDATE");
            let query = sqlx::query_as::<Any, (String, String, Option<String>)>(AssertSqlSafe(text));
            let locked = query.bind(json::text(&wanted.runs)?).fetch_all(&mut *tx).await?;
            let storing = locked.iter().filter(|(id, ..)| wanted.storing.contains(id));
            payers.extend(storing.flat_map(|(_, tenant, agent)| self.payers(tenant, agent.as_deref())));
        }
        if !wanted.whole.is_empty() || !wanted.sessions.is_empty() {
            let (of_runs, given) = (self.is_one_of("id", 1), json::texts(self.engine(), 2));
            let text = format!(
                "SELECT id FROM run_session
                 WHERE id = ANY(ARRAY(SELECT session_id FROM run WHERE {of_runs} UNION {given})) ORDER BY id FOR UPDATE"
            );
            let query = sqlx::query(AssertSqlSafe(text)).bind(json::text(&wanted.whole)?);
            query.bind(json::text(&wanted.sessions)?).fetch_all(&mut *tx).await?;
        }
        if !wanted.run_keys.is_empty() {
            let keys: BTreeSet<String> =
                wanted.run_keys.iter().map(|(tenant, key)| format!("{tenant} {key}")).collect();
            let names = json::texts(self.engine(), 1);
            let text = format!(
                "SELECT CAST(pg_advisory_xact_lock(number) AS TEXT) FROM (
                     SELECT DISTINCT hashtextextended(CAST(current_schema() AS TEXT) || ' ' || value, 0) AS number
                     FROM {names} AS names ORDER BY number) AS numbers"
            );
            sqlx::query(AssertSqlSafe(text)).bind(json::text(&keys)?).fetch_all(&mut *tx).await?;
        }
        self.kept(tx, wanted, payers).await
    }

    fn statements(&self, wanted: &RunsWanted) -> sqlx::Result<Statements> {
        let mut statements = Statements::new(self.engine());
        if !wanted.runs.is_empty() {
            statements.add(json::text(&wanted.runs)?, |ids| {
                self.select_by(LoadedKind::Run, RUN_READ, "run", "id", "true", ids)
            });
            statements.add(json::text(&wanted.runs)?, |ids| {
                let open = "ended_at IS NULL";
                self.select_by(LoadedKind::Command, COMMAND_READ, "run_command", "run_id", open, ids)
            });
            statements.add(json::text(&wanted.runs)?, |ids| {
                self.select_by(LoadedKind::Thread, THREAD_READ, "agui_thread", "run_id", "true", ids)
            });
        }
        if !wanted.commands.is_empty() {
            statements.add(json::text(&wanted.commands)?, |ids| {
                self.select_by(LoadedKind::Command, COMMAND_READ, "run_command", "id", "true", ids)
            });
        }
        if !wanted.whole.is_empty() {
            statements.add(json::text(&wanted.whole)?, |ids| {
                let open = "settled_at IS NULL";
                self.select_by(LoadedKind::Approval, APPROVAL_READ, "run_approval", "run_id", open, ids)
            });
            statements.add(json::text(&wanted.whole)?, |ids| {
                self.select_by(LoadedKind::Job, JOB_READ, "run_job", "run_id", "ended_at IS NULL", ids)
            });
            statements.add(json::text(&wanted.whole)?, |ids| self.select_sessions_of(ids));
        }
        if !wanted.sessions.is_empty() {
            statements.add(json::text(&wanted.sessions)?, |ids| {
                self.select_by(LoadedKind::Session, SESSION_READ, "run_session", "id", "true", ids)
            });
        }
        self.add_named(&mut statements, wanted)?;
        if !wanted.starting.is_empty() {
            statements.add(json::text(&wanted.starting)?, |ids| self.select_active(ids));
        }
        Ok(statements)
    }

    /// What the calls name by a key or an id that somebody else has given.
    fn add_named(&self, statements: &mut Statements, wanted: &RunsWanted) -> sqlx::Result<()> {
        let by_key = ("run_id", "idempotency_key");
        let run_key = "tenant, idempotency_key, id, request_hash";
        let pairs = [
            (LoadedKind::Command, &wanted.command_keys, "run_command", COMMAND_READ, by_key),
            (LoadedKind::Job, &wanted.job_keys, "run_job", JOB_READ, by_key),
            (LoadedKind::Key, &wanted.run_keys, "run", run_key, ("tenant", "idempotency_key")),
            (
                LoadedKind::Approval,
                &wanted.approvals,
                "run_approval",
                APPROVAL_READ,
                ("run_id", "approval_id"),
            ),
        ];
        for (kind, names, table, columns, by) in pairs {
            if !names.is_empty() {
                let names: Vec<Pair<'_>> = names.iter().map(|(owner, name)| Pair { owner, name }).collect();
                statements
                    .add_rows(&PAIR, &names, |rows| self.select_pairs(kind, columns, table, by, rows))?;
            }
        }
        if !wanted.events.is_empty() {
            statements.add(json::text(&wanted.events)?, |events| self.select_events(events));
        }
        Ok(())
    }

    /// The events that are stored already, of an object that has the ids of events by run.
    fn select_events(&self, parameter: usize) -> String {
        let columns = "run_id, client_event_id, seq";
        let from = match self.engine() {
            Engine::Sqlite => format!(
                "json_each(${parameter}) AS runs CROSS JOIN json_each(runs.value) AS ids CROSS JOIN run_event
                 WHERE run_event.run_id = runs.key AND run_event.client_event_id = ids.value"
            ),
            Engine::Postgres => format!(
                "json_each(CAST(${parameter} AS json)) AS runs CROSS JOIN LATERAL json_array_elements_text(runs.value) AS ids
                 CROSS JOIN LATERAL (SELECT * FROM run_event
                     WHERE run_event.run_id = runs.key AND run_event.client_event_id = ids.value OFFSET 0) AS found"
            ),
        };
        self.select(LoadedKind::Event, columns, &from)
    }

    /// The rows of a table whose column has one of the values of a list, each looked up in an index.
    fn select_by(
        &self,
        kind: LoadedKind,
        columns: &str,
        table: &str,
        column: &str,
        condition: &str,
        parameter: usize,
    ) -> String {
        let ids = json::texts(self.engine(), parameter);
        let from = match self.engine() {
            Engine::Sqlite => format!("{table} WHERE {column} IN {ids} AND {condition}"),
            Engine::Postgres => {
                let found = json::each(&format!("{ids} AS given"), "given.value", table, column);
                format!("{found} WHERE {condition}")
            }
        };
        self.select(kind, columns, &from)
    }

    fn select_pairs(
        &self,
        kind: LoadedKind,
        columns: &str,
        table: &str,
        (owner, name): (&str, &str),
        parameter: usize,
    ) -> String {
        let rows = json::rows(self.engine(), parameter, &PAIR);
        let condition = format!("{table}.{owner} = given.owner AND {table}.{name} = given.name");
        let from = match self.engine() {
            Engine::Sqlite => format!("{rows} CROSS JOIN {table} WHERE {condition}"),
            Engine::Postgres => {
                format!(
                    "{rows} CROSS JOIN LATERAL (SELECT * FROM {table} WHERE {condition} OFFSET 0) AS found"
                )
            }
        };
        self.select(kind, columns, &from)
    }

    /// The sessions of these runs.
    fn select_sessions_of(&self, parameter: usize) -> String {
        let ids = self.is_one_of("id", parameter);
        let from = match self.engine() {
            Engine::Sqlite => format!("run_session WHERE id IN (SELECT session_id FROM run WHERE {ids})"),
            Engine::Postgres => {
                format!("run_session WHERE id = ANY(ARRAY(SELECT session_id FROM run WHERE {ids}))")
            }
        };
        self.select(LoadedKind::Session, SESSION_READ, &from)
    }

    /// How many active runs the tenants of these runs have.
    fn select_active(&self, parameter: usize) -> String {
        let ids = self.is_one_of("id", parameter);
        let tenants = format!("(SELECT DISTINCT tenant AS name FROM run WHERE {ids}) AS tenants");
        let count = "(SELECT COUNT(*) FROM run WHERE run.tenant = tenants.name AND run.active = 1)";
        self.select(LoadedKind::Active, &format!("name, {count}"), &tenants)
    }

    /// Whether a column has one of the values of a list. On PostgreSQL the list is made first, and then looked up in an index, also where
    /// the condition is part of a larger one.
    pub(super) fn is_one_of(&self, column: &str, parameter: usize) -> String {
        let texts = json::texts(self.engine(), parameter);
        match self.engine() {
            Engine::Sqlite => format!("{column} IN {texts}"),
            Engine::Postgres => format!("{column} = ANY(ARRAY{texts})"),
        }
    }

    fn select(&self, kind: LoadedKind, columns: &str, from: &str) -> String {
        let row = json::row(self.engine(), columns);
        format!("SELECT CAST({} AS BIGINT) AS kind, {row} AS data FROM {from}", kind as i64)
    }
}

fn read(rows: Vec<(i64, String)>) -> sqlx::Result<Runs> {
    let mut runs = Runs::default();
    // Runs first: what belongs to one is put into it.
    for (_, row) in rows.iter().filter(|(kind, _)| *kind == LoadedKind::Run as i64) {
        let row = json::read::<StoredRun>(row)?.read();
        runs.runs.insert(row.id.clone(), LoadedRun::new(row));
    }
    for (number, row) in &rows {
        let kind = usize::try_from(*number).ok().and_then(|number| LoadedKind::ALL.get(number));
        add(&mut runs, *kind.ok_or_else(|| damaged("a kind of row that is none"))?, row)?;
    }
    Ok(runs)
}

fn add(runs: &mut Runs, kind: LoadedKind, row: &str) -> sqlx::Result<()> {
    match kind {
        LoadedKind::Run => {}
        LoadedKind::Command => {
            let row = json::read::<StoredCommand>(row)?.read();
            if let Some(run) = runs.runs.get_mut(&row.run_id) {
                run.commands.insert(row.id.clone(), row);
            }
        }
        LoadedKind::Approval => {
            let row = json::read::<StoredApproval>(row)?.read()?;
            if let Some(run) = runs.runs.get_mut(&row.run_id) {
                run.approvals.insert(row.id.clone(), row);
            }
        }
        LoadedKind::Job => {
            let row = json::read::<StoredJob>(row)?.read();
            if let Some(run) = runs.runs.get_mut(&row.run_id)
                && !run.jobs.iter().any(|job| job.id == row.id)
            {
                run.jobs.push(row);
            }
        }
        LoadedKind::Session => {
            let row = json::read::<StoredSession>(row)?.read();
            runs.sessions.insert(row.id.clone(), row);
        }
        LoadedKind::Key => {
            let (tenant, key, id, hash): (String, String, String, Option<String>) = json::read(row)?;
            runs.keys.insert((tenant, key), (id, hash.unwrap_or_default()));
        }
        LoadedKind::Event => {
            let (run, client_event_id, seq): (String, String, i64) = json::read(row)?;
            runs.stored.entry(run).or_default().insert(client_event_id, seq);
        }
        LoadedKind::Thread => {
            let row = json::read::<ThreadRow>(row)?;
            if let Some(run) = runs.runs.get_mut(&row.run_id) {
                run.thread = Some(row);
            }
        }
        LoadedKind::Active => {
            let (tenant, count): (String, i64) = json::read(row)?;
            runs.active.insert(tenant, count);
        }
    }
    Ok(())
}
