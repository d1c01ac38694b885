-- What is known of the capability manifest of an agent of ours, if it has one.
ALTER TABLE document ADD COLUMN manifest_version BIGINT;
ALTER TABLE document ADD COLUMN manifest_hash TEXT;
ALTER TABLE document ADD COLUMN manifest_words TEXT;
