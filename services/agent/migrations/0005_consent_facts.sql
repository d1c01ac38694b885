-- What a grant is compared with: the scopes that the manifest declares, and which tools need which of them. Absent where the manifest was
-- stored before there was this column.
ALTER TABLE agent ADD COLUMN consent_facts TEXT;
