-- The current prekey of each device, for clients of the first generation; every field as it was given.
CREATE TABLE prekey (
    aid TEXT NOT NULL,
    device TEXT NOT NULL,
    prekey_id TEXT NOT NULL,
    public_key TEXT NOT NULL,
    signature TEXT NOT NULL,
    created_at BIGINT,
    cert_fingerprint TEXT,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (aid, device)
) WITHOUT ROWID;

-- Which message a device has decrypted, as a hash, and when. Lives for a day.
CREATE TABLE replay_guard (
    key TEXT PRIMARY KEY,
    at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX replay_guard_by_age ON replay_guard (at);

-- How far an agent has read in each topic, on whichever device. The order is the time of the message, 0 while nobody
-- knows it; it only grows.
CREATE TABLE read_state (
    aid TEXT NOT NULL,
    topic TEXT NOT NULL,
    message_id TEXT NOT NULL,
    read_order BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (aid, topic)
) WITHOUT ROWID;
