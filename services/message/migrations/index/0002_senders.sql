-- A sender is a number here: an AID in every row, and again in the index over them, is most of what would be written.
CREATE TABLE sender (
    id INTEGER PRIMARY KEY,
    aid TEXT NOT NULL UNIQUE
);

DROP TABLE entry;
CREATE TABLE place (
    inbox BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    letter BIGINT NOT NULL,
    sender BIGINT NOT NULL,
    PRIMARY KEY (inbox, seq)
) WITHOUT ROWID;
CREATE INDEX place_by_sender ON place (inbox, sender, seq, letter);

-- As PostgreSQL has it, so that one text asks both. What does not ask for the sender does not look for it.
CREATE VIEW entry (inbox, seq, letter, sender) AS
    SELECT p.inbox, p.seq, p.letter, s.aid FROM place AS p LEFT JOIN sender AS s ON s.id = p.sender;

-- All of it is made again from the log.
UPDATE filed SET through = 0;
