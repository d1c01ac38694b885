-- Revocations that `auth` was not told of yet. A row is written by the commit that revokes, and removed when the tokens have
-- ended, too: a process that was killed in between leaves it to the next one.
CREATE TABLE unannounced_revocations (
    aid TEXT PRIMARY KEY,
    revoked_at_ms BIGINT NOT NULL
);
