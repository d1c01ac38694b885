-- Logins that were used: a login's nonce works once, and this row is what makes it so.
CREATE TABLE used_logins (
    request_id TEXT PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX used_logins_by_end ON used_logins (expires_at);

-- Refresh tokens by their hash. `chain` is the login they descend from, `parent` the token they replaced.
CREATE TABLE refresh_tokens (
    hash TEXT PRIMARY KEY,
    chain TEXT NOT NULL,
    parent TEXT,
    aid TEXT NOT NULL,
    first_issued_at BIGINT NOT NULL,
    refresh_count BIGINT NOT NULL,
    issued_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    consumed_at BIGINT,
    replayed_at BIGINT
);
CREATE INDEX refresh_tokens_of_aid ON refresh_tokens (aid);
CREATE INDEX refresh_tokens_by_parent ON refresh_tokens (parent);
CREATE INDEX refresh_tokens_by_end ON refresh_tokens (expires_at);
CREATE INDEX refresh_tokens_by_use ON refresh_tokens (consumed_at) WHERE consumed_at IS NOT NULL;

-- Agents whose tokens were all revoked at a moment: access tokens issued until then are dead.
CREATE TABLE revocations (
    aid TEXT PRIMARY KEY,
    revoked_at BIGINT NOT NULL
);
