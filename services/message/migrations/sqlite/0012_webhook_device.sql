-- 1 for the inbox of the device that a webhook reads by. It is made and removed by the service of agents alone.
ALTER TABLE inbox ADD COLUMN webhook BIGINT NOT NULL DEFAULT 0;
