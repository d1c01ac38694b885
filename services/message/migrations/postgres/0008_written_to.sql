-- Where a letter went was a row for each letter, for as long as it could be recalled; now it is one for each sender and
-- domain, with the time of the last letter, give or take half a minute. The old rows name neither, so they are not
-- carried over: what went abroad in the two minutes before this step can be recalled only if its sender has a copy of it
-- on another device, or writes there again.
DROP TABLE abroad;
CREATE TABLE written_to (
    sender TEXT COLLATE "C" NOT NULL,
    issuer TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (sender, issuer)
);
CREATE INDEX written_to_by_age ON written_to (at);

-- When a letter may have got there though it still waits: its link broke before the answer came. Such a one is not simply
-- taken out when it is recalled.
ALTER TABLE outbox ADD COLUMN tried BIGINT;
