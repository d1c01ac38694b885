-- Numbers that are read and changed in one place each: the newest sequence of the log, the highest that was removed from it by age,
-- how far the changes of the agent service were read, when something changed last, and how often a new index was asked for.
CREATE TABLE state (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO state (name, value) VALUES ('sequence', 0), ('floor', 0), ('position', 0), ('changed_at', 0), ('rebuilds', 0);

-- The key that cursors are made with.
CREATE TABLE cursor_key (
    id BIGINT PRIMARY KEY,
    key TEXT NOT NULL
);

-- What each agent publishes now, unless it is private. `listed` documents are in the log and in the index; others are only read by AID.
-- `pass` is the copy of a peer's directory in which a copied document was seen last.
CREATE TABLE document (
    aid TEXT PRIMARY KEY,
    source_ap TEXT NOT NULL,
    own BIGINT NOT NULL,
    listed BIGINT NOT NULL,
    signed BIGINT NOT NULL,
    content TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    pass BIGINT NOT NULL
);
CREATE INDEX document_of_source ON document (source_ap, pass);

-- Every version of a listed document that a snapshot may still show: it is part of a snapshot with valid_from <= cut < valid_to.
-- The content is here only after it was replaced.
CREATE TABLE listing (
    aid TEXT NOT NULL,
    valid_from BIGINT NOT NULL,
    valid_to BIGINT NOT NULL,
    source_ap TEXT NOT NULL,
    own BIGINT NOT NULL,
    signed BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    content TEXT,
    PRIMARY KEY (aid, valid_from)
);
CREATE INDEX listing_replaced ON listing (valid_to);

CREATE TABLE change_log (
    sequence BIGINT PRIMARY KEY,
    op TEXT NOT NULL,
    aid TEXT NOT NULL,
    own BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    logged_at BIGINT NOT NULL
);
CREATE INDEX change_log_of_aid ON change_log (aid, sequence);

CREATE TABLE snapshot (
    version TEXT PRIMARY KEY,
    cut BIGINT NOT NULL,
    frozen_at BIGINT NOT NULL
);

-- How far the directory of each peer was copied. One process at a time does it: it has the lease, and every page it stores names the fence.
CREATE TABLE peer (
    issuer TEXT PRIMARY KEY,
    step TEXT NOT NULL,
    pass BIGINT NOT NULL,
    snapshot_version TEXT,
    snapshot_cursor TEXT,
    snapshot_items BIGINT NOT NULL,
    cursor TEXT,
    last_ok_at BIGINT NOT NULL,
    level_at BIGINT,
    changed_at BIGINT NOT NULL,
    last_error TEXT,
    fence BIGINT NOT NULL,
    leased_until BIGINT NOT NULL
);

-- The domains that copy from us.
CREATE TABLE follower (
    issuer TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL
);

-- How many agents asked what: each sets one of 63 bits, and many agents share a bit, so that nobody can read here who asked.
CREATE TABLE query_stat (
    day BIGINT NOT NULL,
    query TEXT NOT NULL,
    askers BIGINT NOT NULL,
    PRIMARY KEY (day, query)
);
