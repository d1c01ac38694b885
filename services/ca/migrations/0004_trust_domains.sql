-- The domains a root is trusted for, with spaces between; * is every domain. Empty if the root was added before this was asked.
ALTER TABLE trust_roots ADD COLUMN domains TEXT NOT NULL DEFAULT '';

-- The key of each other domain's authority, as it was seen first.
CREATE TABLE issuer_pins (
    domain TEXT PRIMARY KEY,
    spki_fingerprint TEXT NOT NULL,
    -- The root above it, whose domains are counted.
    root TEXT NOT NULL,
    seen_at BIGINT NOT NULL
);
CREATE INDEX issuer_pins_of_root ON issuer_pins (root);
