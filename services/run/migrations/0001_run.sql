-- A run. What never changes is one JSON text in `fixed`. Everything that decides what may happen is beside it, so that a commit that
-- appends events reads and writes one narrow row. `event_bytes` and `event_rows` are what its events count for the tenant. `due_at` is
-- when the server has to look at the run although nobody asks: the end of a lease with a cancel or without a command, or the time-out of
-- a command.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    payer TEXT NOT NULL,
    tenant TEXT NOT NULL,
    session_id TEXT,
    fixed TEXT NOT NULL,
    profile TEXT NOT NULL,
    timeout_ms BIGINT NOT NULL,
    idempotency_key TEXT,
    request_hash TEXT,
    status TEXT NOT NULL,
    failure_kind TEXT,
    failure_message TEXT,
    lease_runner TEXT,
    lease_attempt TEXT,
    lease_epoch BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    lease_released BIGINT NOT NULL,
    heartbeat_at BIGINT,
    refused_runners TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    last_command BIGINT NOT NULL,
    event_bytes BIGINT NOT NULL,
    event_rows BIGINT NOT NULL,
    active BIGINT NOT NULL,
    due_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    cancel_at BIGINT,
    ended_at BIGINT
);
CREATE UNIQUE INDEX run_of_key ON run (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_of_tenant ON run (tenant, id);
CREATE INDEX run_open ON run (tenant, id) WHERE ended_at IS NULL;
CREATE INDEX run_of_session ON run (session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX run_active ON run (tenant) WHERE active = 1;
CREATE INDEX run_due ON run (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX run_of_profile ON run (profile) WHERE ended_at IS NULL;
CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL;

-- A command; `seq` counts from 1 in its run.
CREATE TABLE run_command (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    payer TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    payload TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    idempotency_key TEXT,
    target_id TEXT,
    acknowledged_at BIGINT,
    acknowledged_epoch BIGINT,
    failure_kind TEXT,
    failure_message TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    cancel_at BIGINT,
    ended_at BIGINT
);
CREATE UNIQUE INDEX run_command_of_run ON run_command (run_id, seq);
CREATE UNIQUE INDEX run_command_of_key ON run_command (run_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_command_open ON run_command (run_id, seq) WHERE ended_at IS NULL;

-- The log of a run: `seq` from 1 without gaps, never changed. The name that a runner gave an event makes a repetition harmless.
CREATE TABLE run_event (
    run_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    command_id TEXT,
    attempt_id TEXT,
    payload TEXT NOT NULL,
    client_event_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE UNIQUE INDEX run_event_of_client ON run_event (run_id, client_event_id) WHERE client_event_id IS NOT NULL;

-- A question of a back end. It is open until it is answered or has expired, and is shown to the runner until its answer is in the log.
CREATE TABLE run_approval (
    run_id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    payer TEXT NOT NULL,
    command_id TEXT NOT NULL,
    question TEXT NOT NULL,
    decision TEXT,
    answer TEXT,
    answered_by TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    answered_at BIGINT,
    settled_at BIGINT,
    PRIMARY KEY (run_id, approval_id)
);
CREATE INDEX run_approval_open ON run_approval (run_id) WHERE settled_at IS NULL;

-- Runners as they registered.
CREATE TABLE run_runner (
    id TEXT PRIMARY KEY,
    payer TEXT NOT NULL,
    run_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    placement TEXT NOT NULL,
    body TEXT NOT NULL,
    registered_at BIGINT NOT NULL
);
CREATE INDEX run_runner_of_run ON run_runner (run_id, attempt_id);

-- Starts of runners; `registered_at` is when the last runner of its attempt has registered. Where the server has started it itself, `server`
-- is the server that looks after its process, and `pid` with the time of its start is the process.
CREATE TABLE run_job (
    id TEXT PRIMARY KEY,
    payer TEXT NOT NULL,
    run_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    idempotency_key TEXT,
    request_hash TEXT NOT NULL,
    launcher TEXT NOT NULL,
    env TEXT NOT NULL,
    idle_timeout_ms BIGINT NOT NULL,
    log_ref TEXT NOT NULL,
    runner_id TEXT,
    created_at BIGINT NOT NULL,
    registered_at BIGINT,
    ended_at BIGINT,
    failed BIGINT NOT NULL,
    server TEXT,
    isolation TEXT,
    pid BIGINT,
    pid_started BIGINT
);
CREATE INDEX run_job_of_server ON run_job (server) WHERE ended_at IS NULL AND server IS NOT NULL;
CREATE UNIQUE INDEX run_job_of_key ON run_job (run_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_job_of_run ON run_job (run_id, id);

-- Conversations over several runs. `version` grows when a command or a run of it ends; who has read a lower one has not read it.
-- `back_end` is what the last runner said that a back end needs to go on. `storage_lease` names the lease whose runner reported what is
-- stored; NULL where this server has measured it.
CREATE TABLE run_session (
    id TEXT PRIMARY KEY,
    payer TEXT NOT NULL,
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,
    profile TEXT NOT NULL,
    title TEXT,
    state TEXT NOT NULL,
    version BIGINT NOT NULL,
    active_run TEXT,
    active_command TEXT,
    last_run TEXT,
    last_command TEXT,
    back_end TEXT,
    storage_kind TEXT NOT NULL,
    storage_bytes BIGINT,
    storage_files BIGINT,
    storage_hash TEXT,
    storage_at BIGINT,
    storage_lease TEXT,
    evicted_at BIGINT,
    storage_removed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX run_session_of_tenant ON run_session (tenant, updated_at, id);
CREATE INDEX run_session_expiring ON run_session (expires_at) WHERE storage_kind = 'pvc';
CREATE INDEX run_session_removing ON run_session (id) WHERE storage_kind = 'evicted' AND storage_removed = 0;
CREATE INDEX run_session_stored ON run_session (tenant) WHERE storage_kind = 'pvc';
CREATE INDEX run_session_over ON run_session (evicted_at) WHERE storage_removed = 1;

-- How far each reader has read.
CREATE TABLE run_session_reader (
    session_id TEXT NOT NULL,
    reader TEXT NOT NULL,
    version BIGINT NOT NULL,
    payer TEXT NOT NULL,
    PRIMARY KEY (session_id, reader)
);

-- Tokens of tenants, administrators and runners, as hashes. `ends_at` is set for a runner whose attempt was replaced by another one: how
-- long others are valid follows from the row of the run.
CREATE TABLE run_token (
    hash TEXT PRIMARY KEY,
    prefix TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT,
    run_id TEXT,
    attempt_id TEXT,
    created_at BIGINT NOT NULL,
    ends_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX run_token_of_run ON run_token (run_id) WHERE run_id IS NOT NULL;

-- What is known of a credential without its value, which is in the secret store.
-- `secret_version` names the files that this is about; what is said of others is not shown.
CREATE TABLE run_profile (
    profile TEXT PRIMARY KEY,
    secret_version TEXT NOT NULL,
    secret_keys TEXT NOT NULL,
    version BIGINT NOT NULL,
    hash_suffix TEXT NOT NULL,
    base_url TEXT,
    model TEXT,
    updated_at BIGINT NOT NULL
);

-- Validations of profiles, the last ones of each: a run with one command and one runner job. How it has ended is stored here, too, because
-- the run is removed before. `failed` says nothing before `ended_at` is set.
CREATE TABLE run_validation (
    id TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    run_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    failed BIGINT NOT NULL,
    failure_kind TEXT,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX run_validation_of_profile ON run_validation (profile, created_at);

-- Tasks of agents that runs work on. `version` and `messages` say how far what was said about the task was passed on, `asked` is the
-- question that its owner was asked last. Removed with the run.
CREATE TABLE run_task (
    task_id TEXT PRIMARY KEY,
    aid TEXT NOT NULL,
    run_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    asked TEXT,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX run_task_open ON run_task (task_id) WHERE ended_at IS NULL;
CREATE INDEX run_task_of_run ON run_task (run_id);

-- Of the processes of this service one works on tasks: who has the lease of the one row.
CREATE TABLE run_task_worker (
    name TEXT PRIMARY KEY,
    fence BIGINT NOT NULL,
    leased_until BIGINT NOT NULL
);
INSERT INTO run_task_worker (name, fence, leased_until) VALUES ('worker', 0, 0);
