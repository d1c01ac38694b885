-- A message to one device moves only the position of that device. The position that all devices share has no device.
ALTER TABLE read_state ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE read_state DROP CONSTRAINT read_state_pkey;
ALTER TABLE read_state ADD PRIMARY KEY (aid, device, topic);
