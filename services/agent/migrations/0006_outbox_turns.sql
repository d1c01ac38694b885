-- Owners take turns where their rows wait for one destination, and rows that expire are found without reading the others. An event that
-- a newer one about the same relation replaces is not kept. Those that wait already are all sent.
CREATE INDEX event_outbox_turns ON event_outbox (destination, owner, position, key, bytes);
CREATE INDEX event_outbox_expiry ON event_outbox (destination, expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE event_outbox ADD COLUMN subject TEXT;
CREATE INDEX event_outbox_subject ON event_outbox (destination, subject) WHERE subject IS NOT NULL;
ALTER TABLE event_destination ADD COLUMN last_owner TEXT NOT NULL DEFAULT '';
ALTER TABLE event_destination ADD COLUMN answered BIGINT NOT NULL DEFAULT 0;

-- Agents belong to owners, who take turns, too, and have so many deliveries that wait.
CREATE INDEX webhook_outbox_turns ON webhook_outbox (destination, owner, position, key, bytes);
CREATE INDEX webhook_outbox_expiry ON webhook_outbox (destination, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX webhook_outbox_owner ON webhook_outbox (owner, position, key, destination);
ALTER TABLE webhook_outbox ADD COLUMN subject TEXT;
ALTER TABLE webhook_destination ADD COLUMN last_owner TEXT NOT NULL DEFAULT '';
ALTER TABLE webhook_destination ADD COLUMN answered BIGINT NOT NULL DEFAULT 0;
UPDATE webhook_destination SET answered = 1 WHERE delivered > 0 AND attempts = 0;
