-- Rows count beside bytes, and there are two more kinds: all senders of another domain (domain), and the new agents of a network
-- (network). What the operator lets some senders have instead of the settings:
ALTER TABLE stored_bytes ADD COLUMN kept_rows BIGINT NOT NULL DEFAULT 0;
CREATE TABLE account_limit (
    aid TEXT COLLATE "C" PRIMARY KEY,
    bytes BIGINT NOT NULL,
    kept_rows BIGINT NOT NULL
);
