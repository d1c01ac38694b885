-- When each device was last seen, give or take an hour: one that was not for long is removed. Those that exist are counted
-- from this step on.
ALTER TABLE inbox ADD COLUMN seen_at BIGINT NOT NULL DEFAULT 0;
UPDATE inbox SET seen_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
CREATE INDEX inbox_by_seen ON inbox (seen_at);

-- The highest seq that any removed device of an agent had. The inboxes of its later devices begin behind it: a device that
-- comes back asks for what follows the last seq it knows.
CREATE TABLE removed_device (
    aid TEXT PRIMARY KEY,
    seq BIGINT NOT NULL
) WITHOUT ROWID;

-- Whose row it is: each agent has a limited number.
ALTER TABLE replay_guard ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX replay_guard_by_owner ON replay_guard (owner, at);

-- How many bytes were stored from (kind: sender) and for (kind: inbox) an agent, by the time they were stored. Rows are removed
-- when the messages they count are.
CREATE TABLE stored_bytes (
    kind TEXT NOT NULL,
    aid TEXT NOT NULL,
    bucket BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (kind, aid, bucket)
) WITHOUT ROWID;
CREATE INDEX stored_bytes_by_age ON stored_bytes (bucket);
