-- The messages for domains that could not be reached are rows of an outbox like that of other services. Those that wait are taken over
-- as they are, in their order, with how delivery to their domains goes.
ALTER TABLE outbox RENAME TO relay_outbox;
ALTER TABLE relay_outbox RENAME COLUMN issuer TO destination;
ALTER TABLE relay_outbox RENAME COLUMN nth TO position;
ALTER TABLE relay_outbox RENAME COLUMN at TO created_at;
ALTER TABLE relay_outbox RENAME COLUMN tried TO tried_at;
ALTER TABLE relay_outbox ADD COLUMN owner TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE relay_outbox ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE relay_outbox ADD COLUMN progress TEXT;
-- When the ttl of a message is over is a part of its data, because only this service knows what it means.
UPDATE relay_outbox SET owner = COALESCE(CAST(data AS JSON) ->> 'caller_aid', ''),
    data = CASE WHEN ttl_until IS NULL THEN data ELSE '{"ttl_until":' || ttl_until || ',' || substr(data, 2) END;
ALTER TABLE relay_outbox DROP COLUMN ttl_until;

ALTER TABLE outbox_peer RENAME TO relay_destination;
ALTER TABLE relay_destination RENAME COLUMN issuer TO destination;
