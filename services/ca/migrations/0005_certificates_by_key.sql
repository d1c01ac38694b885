-- A certificate may be named by the hash of its key. Of one key there are as many as it was renewed; the newest is wanted.
CREATE INDEX certificates_by_key ON certificates (spki_fingerprint, issued_at);
