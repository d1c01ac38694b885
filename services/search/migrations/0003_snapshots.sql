-- Snapshots of every midnight are kept by their number; those that were frozen for a reader until nobody reads them any more. `read_at` is when
-- a page of one was last read, to the minute.
ALTER TABLE snapshot ADD COLUMN daily BIGINT NOT NULL DEFAULT 0;
ALTER TABLE snapshot ADD COLUMN read_at BIGINT NOT NULL DEFAULT 0;
UPDATE snapshot SET daily = 1 WHERE version LIKE '%T00:00:00Z';
UPDATE snapshot SET read_at = frozen_at;
