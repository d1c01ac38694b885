-- Roots of other operators. Our own is a file, and is always in the list.
CREATE TABLE trust_roots (
    fingerprint TEXT PRIMARY KEY,
    pem TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    -- One that was taken away stays for a while, so that the list can say so.
    removed_at BIGINT
);
