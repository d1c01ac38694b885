-- The document each agent publishes about itself, byte for byte. The ETag is the hash of the whole.
CREATE TABLE agent_md (
    aid TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    etag TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
