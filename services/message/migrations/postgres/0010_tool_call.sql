-- The tool calls of each agent within the last minute: at most sixty times in ascending order, with commas between them.
-- A call that no stored message shows to be a repetition has its key behind its time. `last` is the latest of the times; a row
-- is removed when that has left the minute. Whoever counts a call locks the row of its sender until its commit.
CREATE TABLE tool_call (
    sender TEXT COLLATE "C" PRIMARY KEY,
    calls TEXT NOT NULL,
    last BIGINT NOT NULL
);
