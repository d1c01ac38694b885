-- Owners take turns where their rows wait for one destination, and rows that expire are found without reading the others.
CREATE INDEX event_outbox_turns ON event_outbox (destination, owner, position, key, bytes);
CREATE INDEX event_outbox_expiry ON event_outbox (destination, expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE event_destination ADD COLUMN last_owner TEXT NOT NULL DEFAULT '';

CREATE INDEX webhook_outbox_turns ON webhook_outbox (destination, owner, position, key, bytes);
CREATE INDEX webhook_outbox_expiry ON webhook_outbox (destination, expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE webhook_destination ADD COLUMN last_owner TEXT NOT NULL DEFAULT '';
