-- One inbox for each device of an agent. An agent that never connected has one without a device, which the first
-- device takes over with everything in it: joined_at says when. Up to floor, its letters were removed for their age.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    aid TEXT NOT NULL,
    device TEXT NOT NULL,
    joined_at BIGINT,
    floor BIGINT NOT NULL DEFAULT 0,
    spk_id TEXT,
    spk_pk TEXT,
    spk_signature TEXT,
    spk_timestamp BIGINT,
    UNIQUE (aid, device)
);

-- The log: every letter once, in the order of the commits, with the places it has in inboxes. It is only appended to
-- and cut off at its old end; how to find a letter is written behind, into a file of its own.
CREATE TABLE letter (
    id INTEGER PRIMARY KEY,
    at BIGINT NOT NULL,
    data TEXT NOT NULL
);

-- How far each consumer has read: as a whole (sender is empty) and of each sender. Only grows.
CREATE TABLE cursor (
    inbox BIGINT NOT NULL,
    slot TEXT NOT NULL,
    sender TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (inbox, slot, sender)
) WITHOUT ROWID;

-- Where a consumer stood when it first asked sender by sender. Never changes.
CREATE TABLE consumer (
    inbox BIGINT NOT NULL,
    slot TEXT NOT NULL,
    bootstrap_floor BIGINT NOT NULL,
    PRIMARY KEY (inbox, slot)
) WITHOUT ROWID;
