-- From which network an agent was registered, as long as it is new: until then new agents of one network share what they may keep.
CREATE TABLE new_agents (
    aid TEXT PRIMARY KEY,
    network TEXT NOT NULL,
    until BIGINT NOT NULL
);
CREATE INDEX new_agents_until ON new_agents (until);
