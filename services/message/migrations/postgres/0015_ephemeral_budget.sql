-- Who pays for a row: its sender, or the domain of its sender. Of what was stored before this step nobody knows but for thoughts, whose
-- key is their sender; the rest has one payer of its own, and expires.
ALTER TABLE shelf ADD COLUMN payer TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE shelf SET payer = 'agent ' || key WHERE kind = 'thought';
ALTER TABLE shelf ALTER COLUMN payer DROP DEFAULT;
CREATE INDEX shelf_by_payer ON shelf (kind, payer, number);
DROP INDEX shelf_by_age;
CREATE INDEX shelf_by_age ON shelf (kind, until);

-- The bytes of all rows of a kind, and those of each payer: always the sums of the rows that are committed. Like the rows they
-- are empty after a crash of the database. A transaction changes them only while it is being committed, and the row of the kind
-- first: nobody else changes the sums of that kind until it has ended.
CREATE UNLOGGED TABLE shelf_total (
    kind TEXT COLLATE "C" PRIMARY KEY,
    bytes BIGINT NOT NULL
);
CREATE UNLOGGED TABLE shelf_held (
    kind TEXT COLLATE "C" NOT NULL,
    payer TEXT COLLATE "C" NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (kind, payer)
);
CREATE INDEX shelf_held_by_bytes ON shelf_held (kind, bytes);
INSERT INTO shelf_total (kind, bytes) SELECT kind, SUM(bytes) FROM shelf GROUP BY kind;
INSERT INTO shelf_held (kind, payer, bytes) SELECT kind, payer, SUM(bytes) FROM shelf GROUP BY kind, payer;

-- How many rows of a list were evicted because all lists together had too much, while it held anything at all. They are not counted in
-- shelf_dropped: a transaction changes that before its commit, with the list locked.
CREATE UNLOGGED TABLE shelf_evicted (
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    evicted BIGINT NOT NULL,
    PRIMARY KEY (kind, key)
);

-- Adds to the sums, and gives the sum of the kind.
CREATE FUNCTION shelf_count(of_kind TEXT, of_payer TEXT, more BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    total BIGINT;
    held BIGINT;
BEGIN
    INSERT INTO shelf_total AS t (kind, bytes) VALUES (of_kind, more)
    ON CONFLICT (kind) DO UPDATE SET bytes = t.bytes + excluded.bytes RETURNING t.bytes INTO total;
    INSERT INTO shelf_held AS h (kind, payer, bytes) VALUES (of_kind, of_payer, more)
    ON CONFLICT (kind, payer) DO UPDATE SET bytes = h.bytes + excluded.bytes RETURNING h.bytes INTO held;
    IF held = 0 THEN
        DELETE FROM shelf_held WHERE kind = of_kind AND payer = of_payer;
    END IF;
    RETURN total;
END $$;

CREATE FUNCTION shelf_forget_evicted(of_kind TEXT, of_key TEXT) RETURNS VOID LANGUAGE sql AS $$
    DELETE FROM shelf_evicted WHERE kind = of_kind AND key = of_key
    AND NOT EXISTS (SELECT 1 FROM shelf WHERE kind = of_kind AND key = of_key)
$$;

-- While more is held than may be, the payer that holds most loses its oldest rows, until it holds no more than the next one or enough is
-- gone. At least an eighth of what is too much goes at once: many payers that hold equally much take a few steps, not one for each row.
-- Rows that another transaction is removing are passed over, not waited for: that one waits for the sums of the kind, which are locked
-- here.
CREATE FUNCTION shelf_evict(of_kind TEXT, total BIGINT, most BIGINT) RETURNS VOID LANGUAGE plpgsql
-- The oldest are read in the order of their index, whatever the planner knows of the table.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    largest RECORD;
    oldest RECORD;
    due BIGINT;
    gone BIGINT;
BEGIN
    WHILE total > most LOOP
        SELECT h.payer, h.bytes - COALESCE((
            SELECT n.bytes FROM shelf_held AS n WHERE n.kind = of_kind ORDER BY n.bytes DESC OFFSET 1 LIMIT 1), 0) AS lead
        INTO largest FROM shelf_held AS h WHERE h.kind = of_kind ORDER BY h.bytes DESC LIMIT 1;
        due := LEAST(total - most, GREATEST(largest.lead, (total - most + 7) / 8));
        gone := 0;
        FOR oldest IN
            SELECT key, number, bytes FROM shelf WHERE kind = of_kind AND payer = largest.payer
            ORDER BY number LIMIT 1000 FOR UPDATE SKIP LOCKED
        LOOP
            DELETE FROM shelf WHERE kind = of_kind AND key = oldest.key AND number = oldest.number;
            INSERT INTO shelf_evicted AS e (kind, key, evicted) VALUES (of_kind, oldest.key, 1)
            ON CONFLICT (kind, key) DO UPDATE SET evicted = e.evicted + 1;
            PERFORM shelf_forget_evicted(of_kind, oldest.key);
            gone := gone + oldest.bytes;
            EXIT WHEN gone >= due;
        END LOOP;
        EXIT WHEN gone = 0;
        total := shelf_count(of_kind, largest.payer, -gone);
    END LOOP;
END $$;

-- A new row is counted when its transaction is committed, with the limit that `shelve` was called with.
CREATE FUNCTION shelf_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    total BIGINT := shelf_count(NEW.kind, NEW.payer, NEW.bytes);
    most BIGINT := current_setting('aund.shelf_' || NEW.kind);
BEGIN
    IF total > most THEN
        PERFORM shelf_evict(NEW.kind, total, most);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER shelf_added AFTER INSERT ON shelf DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION shelf_added();

-- Whatever removes a row; but `shelf_evict`, which is called by a trigger, has counted it itself.
CREATE FUNCTION shelf_removed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM shelf_count(OLD.kind, OLD.payer, -OLD.bytes);
    PERFORM shelf_forget_evicted(OLD.kind, OLD.key);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER shelf_removed AFTER DELETE ON shelf DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION shelf_removed();

-- Puts a row on a shelf and gives its number. In a list that is full, the payer that has most of it, in rows or in bytes, loses its
-- oldest; among equals the oldest of all goes. The shelf stays locked until the transaction ends, so that a lower number never appears
-- after a higher one.
DROP FUNCTION shelve;
CREATE FUNCTION shelve(
    of_kind TEXT, of_key TEXT, of_name TEXT, of_payer TEXT, lives_until BIGINT, weight BIGINT, content TEXT,
    most_rows BIGINT, most_bytes BIGINT, most_in_all BIGINT, now BIGINT
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    made BIGINT;
    held RECORD;
    gone BIGINT := 0;
BEGIN
    PERFORM set_config('aund.shelf_' || of_kind, CAST(most_in_all AS TEXT), TRUE);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_kind || ' ' || of_key, 0));
    DELETE FROM shelf WHERE kind = of_kind AND key = of_key AND until <= now;
    -- Each row takes a few dead ones of others along, so that the table ends where their time does. Only those of its own kind: two
    -- transactions that count two kinds do it in the same order.
    DELETE FROM shelf WHERE (kind, key, number) IN (
        SELECT s.kind, s.key, s.number FROM shelf AS s WHERE s.kind = of_kind AND s.until <= now ORDER BY s.until LIMIT 8
        FOR UPDATE SKIP LOCKED);
    IF NOT EXISTS (SELECT 1 FROM shelf WHERE kind = of_kind AND key = of_key) THEN
        DELETE FROM shelf_dropped WHERE kind = of_kind AND key = of_key;
    END IF;
    INSERT INTO shelf (kind, key, name, payer, until, bytes, data)
    VALUES (of_kind, of_key, of_name, of_payer, lives_until, weight, content) RETURNING number INTO made;
    LOOP
        SELECT COUNT(*) > most_rows AS too_many, SUM(s.bytes) > most_bytes AS too_large INTO held
        FROM shelf AS s WHERE s.kind = of_kind AND s.key = of_key;
        EXIT WHEN NOT COALESCE(held.too_many OR held.too_large, FALSE);
        DELETE FROM shelf WHERE kind = of_kind AND key = of_key AND number = (
            SELECT MIN(s.number) FROM shelf AS s WHERE s.kind = of_kind AND s.key = of_key GROUP BY s.payer
            ORDER BY CASE WHEN held.too_many THEN COUNT(*) ELSE SUM(s.bytes) END DESC, MIN(s.number) LIMIT 1);
        gone := gone + 1;
    END LOOP;
    IF gone > 0 THEN
        INSERT INTO shelf_dropped AS d (kind, key, dropped) VALUES (of_kind, of_key, gone)
        ON CONFLICT (kind, key) DO UPDATE SET dropped = d.dropped + excluded.dropped;
    END IF;
    RETURN made;
END $$;
