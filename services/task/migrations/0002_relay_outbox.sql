-- What other domains have yet to learn are marks of an outbox like those of other services: one for each task and domain, with the
-- time from which on the domain is told as its position. Those that wait are taken over.
CREATE TABLE relay_outbox (
    key TEXT NOT NULL,
    destination TEXT NOT NULL,
    position BIGINT NOT NULL,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    tried_at BIGINT,
    version BIGINT NOT NULL,
    progress TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (key, destination)
);
CREATE INDEX relay_outbox_order ON relay_outbox (destination, position, key, bytes);
CREATE TABLE relay_destination (
    destination TEXT PRIMARY KEY,
    waiting BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    leased_until BIGINT NOT NULL DEFAULT 0,
    sending BIGINT NOT NULL DEFAULT 0,
    attempts BIGINT NOT NULL DEFAULT 0,
    next_try BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    delivered BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    expired BIGINT NOT NULL DEFAULT 0
);
INSERT INTO relay_outbox (key, destination, position, owner, bytes, created_at, version, data)
    SELECT r.task_id, r.issuer, r.due_at, COALESCE(t.owner, ''), 256, COALESCE(t.updated_at, r.due_at), r.version, ''
    FROM task_relay AS r LEFT JOIN task AS t ON t.id = r.task_id;
DROP TABLE task_relay;
