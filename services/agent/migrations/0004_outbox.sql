-- Events and deliveries are rows of outboxes like those of other services. What waits is taken over in its order, with the attempts
-- that were made, and so are the deliveries that ended.

-- All events have one destination. When one was written was not stored.
CREATE TABLE event_outbox (
    key TEXT NOT NULL UNIQUE,
    destination TEXT NOT NULL,
    position BIGINT NOT NULL,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    tried_at BIGINT,
    version BIGINT NOT NULL,
    progress TEXT,
    data TEXT NOT NULL
);
CREATE INDEX event_outbox_order ON event_outbox (destination, position, key, bytes);
CREATE TABLE event_destination (
    destination TEXT PRIMARY KEY,
    waiting BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    leased_until BIGINT NOT NULL DEFAULT 0,
    sending BIGINT NOT NULL DEFAULT 0,
    attempts BIGINT NOT NULL DEFAULT 0,
    next_try BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    delivered BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    expired BIGINT NOT NULL DEFAULT 0
);
INSERT INTO event_outbox (key, destination, position, owner, bytes, created_at, version, progress, data)
    SELECT e.id, 'users', ROW_NUMBER() OVER (ORDER BY e.id), COALESCE(a.owner, ''), LENGTH(e.payload) + 256, 0, 0,
        NULLIF(e.after_relation, ''),
        '{"agent_id":"' || e.agent_id || '","event":"' || e.event || '","targets":' || COALESCE(e.targets, 'null')
            || ',"payload":' || e.payload || '}'
    FROM agent_event AS e LEFT JOIN agent AS a ON a.id = e.agent_id;
INSERT INTO event_destination (destination, waiting, bytes)
    SELECT destination, COUNT(*), SUM(bytes) FROM event_outbox GROUP BY destination;
DROP TABLE agent_event;

-- The destination of a delivery is the agent whose webhook it is for. Of those that wait only the first was attempted.
CREATE TABLE webhook_outbox (
    key TEXT NOT NULL UNIQUE,
    destination TEXT NOT NULL,
    position BIGINT NOT NULL,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    tried_at BIGINT,
    version BIGINT NOT NULL,
    progress TEXT,
    data TEXT NOT NULL
);
CREATE INDEX webhook_outbox_order ON webhook_outbox (destination, position, key, bytes);
CREATE TABLE webhook_destination (
    destination TEXT PRIMARY KEY,
    waiting BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    leased_until BIGINT NOT NULL DEFAULT 0,
    sending BIGINT NOT NULL DEFAULT 0,
    attempts BIGINT NOT NULL DEFAULT 0,
    next_try BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    delivered BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    expired BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE webhook_ended (
    key TEXT PRIMARY KEY,
    destination TEXT NOT NULL,
    owner TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX webhook_ended_of_destination ON webhook_ended (destination, key);
INSERT INTO webhook_outbox (key, destination, position, owner, bytes, created_at, version, data)
    SELECT d.id, d.agent_id, ROW_NUMBER() OVER (ORDER BY d.id), COALESCE(a.owner, ''), LENGTH(d.body) + 256, d.created_at, 0,
        d.body
    FROM delivery AS d LEFT JOIN agent AS a ON a.id = d.agent_id WHERE d.status = 'waiting';
INSERT INTO webhook_destination (destination, waiting, bytes, attempts, next_try, last_error)
    SELECT w.destination, w.waiting, w.bytes, d.attempts, d.next_at, d.last_error
    FROM (SELECT destination, COUNT(*) AS waiting, SUM(bytes) AS bytes, MIN(position) AS head
          FROM webhook_outbox GROUP BY destination) AS w
    JOIN webhook_outbox AS o ON o.destination = w.destination AND o.position = w.head
    JOIN delivery AS d ON d.id = o.key;
INSERT INTO webhook_ended (key, destination, owner, outcome, reason, attempts, created_at, ended_at, data)
    SELECT d.id, d.agent_id, COALESCE(a.owner, ''), CASE d.status WHEN 'delivered' THEN 'delivered' ELSE 'given_up' END,
        d.last_error, d.attempts, d.created_at, COALESCE(d.ended_at, d.created_at), d.body
    FROM delivery AS d LEFT JOIN agent AS a ON a.id = d.agent_id WHERE d.status <> 'waiting';
DROP TABLE delivery;
