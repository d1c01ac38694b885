-- The SHA-256 of the URL to which the key of the AID has agreed that its messages are sent, in hex. Absent where it has not.
ALTER TABLE agent ADD COLUMN webhook_agreed TEXT;
-- The fingerprint of the key that agreed: another key of the AID is asked again.
ALTER TABLE agent ADD COLUMN webhook_agreed_key TEXT;
CREATE INDEX agent_agreed ON agent (aid) WHERE webhook_agreed IS NOT NULL;
-- Counts what changes in which agents get their messages by webhook, so that of two marks about one AID the later has the higher version.
INSERT INTO agent_state (name, value) VALUES ('webhook_change', 0);

-- The outbox of messages for webhooks has marks only: that messages wait for an AID, up to a seq of its device, or that its device has
-- to be made or removed. Messages stay in their inbox.
CREATE TABLE message_outbox (
    key TEXT NOT NULL,
    destination TEXT NOT NULL,
    position BIGINT NOT NULL,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    tried_at BIGINT,
    version BIGINT NOT NULL,
    progress TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (key, destination)
);
CREATE INDEX message_outbox_order ON message_outbox (destination, position, key, bytes);
CREATE INDEX message_outbox_turns ON message_outbox (destination, owner, position, key, bytes);
CREATE TABLE message_destination (
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
    expired BIGINT NOT NULL DEFAULT 0,
    last_owner TEXT NOT NULL DEFAULT '',
    answered BIGINT NOT NULL DEFAULT 0
);

-- The message of an AID that its webhook has not accepted: how often it was sent, how often that was answered, and since when.
CREATE TABLE message_attempt (
    aid TEXT PRIMARY KEY,
    seq BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    answers BIGINT NOT NULL,
    first_answer_at BIGINT
);
