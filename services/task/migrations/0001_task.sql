-- A task. Everything that decides what may happen to it is here, so that a whole tree is read with one statement; what was said and
-- what came out is beside. `participants` is a list in JSON, owner and assignee among them. `due_at` is when the server ends the task
-- if nothing happens; every open task has it, and none that has ended.
CREATE TABLE task (
    id TEXT PRIMARY KEY,
    root_id TEXT NOT NULL,
    parent_id TEXT,
    depth BIGINT NOT NULL,
    status TEXT NOT NULL,
    version BIGINT NOT NULL,
    owner TEXT NOT NULL,
    assignee TEXT NOT NULL,
    participants TEXT NOT NULL,
    visibility TEXT NOT NULL,
    required BIGINT NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT,
    reason TEXT,
    messages BIGINT NOT NULL,
    artifacts BIGINT NOT NULL,
    artifact_bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    accepted_at BIGINT,
    ended_at BIGINT,
    due_at BIGINT
);
CREATE INDEX task_of_root ON task (root_id);
CREATE INDEX task_of_owner ON task (owner, status, updated_at, id);
CREATE INDEX task_of_assignee ON task (assignee, status, updated_at, id);
CREATE INDEX task_due ON task (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX task_ended ON task (ended_at) WHERE ended_at IS NOT NULL;

-- Those who are neither owner nor assignee, for their lists: status and updated_at are those of the task.
CREATE TABLE task_participant (
    aid TEXT NOT NULL,
    task_id TEXT NOT NULL,
    status TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, aid)
);
CREATE INDEX task_of_participant ON task_participant (aid, status, updated_at, task_id);

-- What was said. The first message is the input of the task.
CREATE TABLE task_message (
    task_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    from_aid TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, seq)
);
CREATE UNIQUE INDEX task_message_by_id ON task_message (task_id, id);

-- What came out. `meta` is the artifact in JSON without its content, `digest` tells whether another one is the same.
CREATE TABLE task_artifact (
    task_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    artifact_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    meta TEXT NOT NULL,
    content TEXT,
    bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, artifact_id)
);

-- Answers to calls that may be repeated: of an idempotency_key the scope is its agent, of a request_id the task.
CREATE TABLE task_answer (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    result TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX task_answer_expired ON task_answer (expires_at);

-- Which other domain has yet to learn of which task, up to which version. Written with the change, and removed when that domain has
-- answered; what it is told is read from the task, so many changes while it is away are one row. `due_at` is when it is told again.
CREATE TABLE task_relay (
    task_id TEXT NOT NULL,
    issuer TEXT NOT NULL,
    version BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (task_id, issuer)
);
CREATE INDEX task_relay_due ON task_relay (issuer, due_at);

-- A task of another domain in which an agent of ours takes part, as that domain told of it last. It says where calls of this agent go,
-- and is shown in its lists; nothing is decided by it. `home_issuer` never changes. `changed_at` is when it was told, by our clock.
CREATE TABLE task_stub (
    aid TEXT NOT NULL,
    task_id TEXT NOT NULL,
    home_issuer TEXT NOT NULL,
    role TEXT NOT NULL,
    status TEXT NOT NULL,
    version BIGINT NOT NULL,
    owner TEXT NOT NULL,
    assignee TEXT NOT NULL,
    parent_id TEXT,
    required BIGINT NOT NULL,
    title TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (aid, task_id)
);
CREATE INDEX task_stub_of_role ON task_stub (aid, role, status, updated_at, task_id);
CREATE INDEX task_stub_of_home ON task_stub (aid, home_issuer);
CREATE INDEX task_stub_changed ON task_stub (changed_at);

-- Who wants to hear of a task: a device and slot of an agent, so that it lasts when the connection does not. `events` is a bit for each
-- event. `ends_at` is set when the task has ended.
CREATE TABLE task_subscription (
    aid TEXT NOT NULL,
    device TEXT NOT NULL,
    slot TEXT NOT NULL,
    task_id TEXT NOT NULL,
    events BIGINT NOT NULL,
    ends_at BIGINT,
    PRIMARY KEY (aid, device, slot, task_id)
);
CREATE INDEX task_subscription_of_task ON task_subscription (task_id);
CREATE INDEX task_subscription_ends ON task_subscription (ends_at) WHERE ends_at IS NOT NULL;
