-- Owners take turns where their rows wait for one domain.
CREATE INDEX relay_outbox_turns ON relay_outbox (destination, owner, position, key, bytes);
ALTER TABLE relay_destination ADD COLUMN last_owner TEXT NOT NULL DEFAULT '';
ALTER TABLE relay_destination ADD COLUMN answered BIGINT NOT NULL DEFAULT 0;
