-- What somebody registered about an agent: one row for each AID. `manifest` is the canonical text, `token_hash` the SHA-256 of the
-- token that the agent proves itself with over HTTP. The secret of the webhook signs what is sent there, so it is here as it is.
CREATE TABLE agent (
    id TEXT PRIMARY KEY,
    aid TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    connection_mode TEXT NOT NULL,
    health_check_url TEXT,
    webhook_url TEXT,
    webhook_secret TEXT,
    webhook_unreachable BIGINT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    manifest TEXT,
    manifest_version BIGINT NOT NULL,
    manifest_hash TEXT,
    manifest_facts TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX agent_of_owner ON agent (owner, id);

-- What a user granted an agent. Scopes are JSON lists of their ids. While `reauth_required` is 1, the user has not agreed to
-- `reauth_scopes` as they are since `reauth_manifest_version`.
CREATE TABLE relation (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    agent_aid TEXT NOT NULL,
    user_aid TEXT NOT NULL,
    status TEXT NOT NULL,
    granted_scopes TEXT NOT NULL,
    granted_manifest_version BIGINT NOT NULL,
    reauth_required BIGINT NOT NULL,
    reauth_manifest_version BIGINT,
    reauth_scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- A user has at most one relation with an agent that is not revoked.
CREATE UNIQUE INDEX relation_open ON relation (agent_id, user_aid) WHERE status <> 'revoked';
CREATE INDEX relation_of_agent ON relation (agent_id, id);
CREATE INDEX relation_of_user ON relation (user_aid, id);
CREATE INDEX relation_pending ON relation (user_aid) WHERE reauth_required = 1;
CREATE INDEX relation_revoked ON relation (updated_at) WHERE status = 'revoked';

-- Events that are not published yet, written with the change that caused them. `targets` is a JSON list of AIDs, or NULL for the users
-- of all active relations, of which those up to `after_relation` were told.
CREATE TABLE agent_event (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    event TEXT NOT NULL,
    payload TEXT NOT NULL,
    targets TEXT,
    after_relation TEXT NOT NULL,
    leased_until BIGINT NOT NULL
);

-- What is sent to webhooks: `waiting`, `delivered`, or `dead` after the last attempt.
CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    leased_until BIGINT NOT NULL,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX delivery_of_agent ON delivery (agent_id, status, id);
CREATE INDEX delivery_due ON delivery (next_at) WHERE status = 'waiting';

-- Proofs that were used: each is good once, until it is too old.
CREATE TABLE used_proof (
    aid TEXT NOT NULL,
    nonce TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (aid, nonce)
);
