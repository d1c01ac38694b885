-- Where each letter lies: made from the log, letter by letter, up to and including filed.through.
CREATE TABLE entry (
    inbox BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    letter BIGINT NOT NULL,
    copy BIGINT NOT NULL,
    sender TEXT NOT NULL,
    PRIMARY KEY (inbox, seq)
) WITHOUT ROWID;
CREATE INDEX entry_by_sender ON entry (inbox, sender, seq);

-- Which (sender, message_id) was stored, as the beginning of its hash; the letter itself says whether it is the one.
CREATE TABLE seen (
    key INTEGER PRIMARY KEY,
    letter BIGINT NOT NULL
);

-- The last number of each inbox, and the highest one that was removed for its age.
CREATE TABLE head (
    inbox BIGINT PRIMARY KEY,
    seq BIGINT NOT NULL,
    floor BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE filed (
    through BIGINT NOT NULL
);
INSERT INTO filed (through) VALUES (0);
