-- Whether the document has signatures, which were verified when it was stored.
ALTER TABLE agent_md ADD COLUMN signed BIGINT NOT NULL DEFAULT 0;
UPDATE agent_md SET signed = 1 WHERE REPLACE(content, '<!-- AUN-SIGNATURE', '') <> content;

-- The last change of each agent's document, in the order of their commits: a document (`upsert`) or none any more (`delete`).
CREATE TABLE agent_change (
    position BIGINT PRIMARY KEY,
    aid TEXT NOT NULL UNIQUE,
    op TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
INSERT INTO agent_change (position, aid, op, updated_at)
    SELECT ROW_NUMBER() OVER (ORDER BY updated_at, aid), aid, 'upsert', updated_at FROM agent_md;

-- `position`: the position that was given last. `revoked_since`: agents that were revoked before this second are done with.
CREATE TABLE agent_state (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO agent_state (name, value) VALUES
    ('position', (SELECT COUNT(*) FROM agent_md)),
    ('revoked_since', 0);
