-- Every certificate this authority ever signed. A row is never deleted: old signatures must stay verifiable.
CREATE TABLE certificates (
    serial TEXT PRIMARY KEY,
    aid TEXT NOT NULL,
    curve TEXT NOT NULL,
    key_purpose TEXT NOT NULL,
    state TEXT NOT NULL,
    not_before BIGINT NOT NULL,
    not_after BIGINT NOT NULL,
    issued_at BIGINT NOT NULL,
    deactivated_at BIGINT,
    replaced_by TEXT,
    revoked_at BIGINT,
    reason TEXT,
    fingerprint TEXT NOT NULL,
    spki_fingerprint TEXT NOT NULL,
    pem TEXT NOT NULL
);

-- "At most one active_signing per (AID, curve, key purpose)": two registrations of one name meet here.
CREATE UNIQUE INDEX certificates_one_active ON certificates (aid, curve, key_purpose) WHERE state = 'active_signing';
CREATE INDEX certificates_of_aid ON certificates (aid, issued_at);
CREATE INDEX certificates_by_fingerprint ON certificates (fingerprint);
CREATE INDEX certificates_revoked ON certificates (revoked_at) WHERE state = 'revoked';

-- The signed lists of trusted roots, as they were published: clients refuse a version lower than one they have seen.
CREATE TABLE trust_lists (
    version BIGINT PRIMARY KEY,
    next_update BIGINT NOT NULL,
    document TEXT NOT NULL
);
