-- A message to one device moves only the position of that device. The position that all devices share has no device.
CREATE TABLE read_state_by_device (
    aid TEXT NOT NULL,
    device TEXT NOT NULL,
    topic TEXT NOT NULL,
    message_id TEXT NOT NULL,
    read_order BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (aid, device, topic)
) WITHOUT ROWID;
INSERT INTO read_state_by_device (aid, device, topic, message_id, read_order, updated_at)
    SELECT aid, '', topic, message_id, read_order, updated_at FROM read_state;
DROP TABLE read_state;
ALTER TABLE read_state_by_device RENAME TO read_state;
