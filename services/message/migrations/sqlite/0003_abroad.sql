-- Which domain a letter went to, for as long as it can be recalled. The key stands for its sender and its message_id.
CREATE TABLE abroad (
    key TEXT PRIMARY KEY,
    issuer TEXT NOT NULL,
    at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX abroad_by_age ON abroad (at);

-- Letters for domains that could not be reached, in the order in which they came (nth). ttl_until is set for those with
-- a time to live of their own.
CREATE TABLE outbox (
    key TEXT NOT NULL UNIQUE,
    issuer TEXT NOT NULL,
    nth BIGINT NOT NULL,
    at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ttl_until BIGINT,
    bytes BIGINT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX outbox_in_order ON outbox (issuer, nth, key, bytes);
CREATE INDEX outbox_by_expiry ON outbox (issuer, expires_at);

-- How delivery to each domain goes. Whoever delivers holds the lease until then; the fence counts the leases, so that
-- one who lost it changes nothing any more. Letters up to sending may be on their way at this moment.
CREATE TABLE outbox_peer (
    issuer TEXT PRIMARY KEY,
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
) WITHOUT ROWID;
