-- Counts what changes in the list of an agent's devices; all heads of an agent say the same. A letter is addressed
-- from memory, and its commit compares: whoever joined through another process is not missed.
ALTER TABLE head ADD COLUMN changes BIGINT NOT NULL DEFAULT 1;
INSERT INTO head (inbox, seq, floor) SELECT id, 0, floor FROM inbox ON CONFLICT DO NOTHING;
-- Heads are written all the time: room beside each spares their index.
ALTER TABLE head SET (fillfactor = 40);
-- Compared byte by byte, whatever language the database speaks.
ALTER TABLE seen ALTER COLUMN key TYPE TEXT COLLATE "C";
ALTER TABLE entry ALTER COLUMN sender TYPE TEXT COLLATE "C";

-- Says that the devices of an agent are not what they were.
CREATE FUNCTION devices_changed(agent TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    latest BIGINT;
BEGIN
    INSERT INTO head (inbox, seq, floor, changes) SELECT id, 0, 0, 0 FROM inbox WHERE aid = agent
    ON CONFLICT DO NOTHING;
    PERFORM 1 FROM head WHERE inbox IN (SELECT id FROM inbox WHERE aid = agent) ORDER BY inbox FOR UPDATE;
    SELECT MAX(changes) INTO latest FROM head WHERE inbox IN (SELECT id FROM inbox WHERE aid = agent);
    UPDATE head SET changes = latest + 1 WHERE inbox IN (SELECT id FROM inbox WHERE aid = agent);
END $$;

-- Stores letters: numbers, letters, entries and keys, or nothing at all.
--   keys     of each letter, with commas
--   senders  of each letter, parted by U+001F, which no JSON holds
--   texts    of each letter up to its first number, parted likewise
--   firsts   the first place of each letter, and one past the last
--   rests    of each place the text after its number, up to the next one or to the end
--   places   of each place: its head's place in `heads`, how many numbers of this call come after it, letter, copy
--   heads    of each inbox, ascending so that two calls never wait for each other: inbox, numbers wanted, changes
-- Gives (0, place, number), or (1, letter, id) for letters that were stored before, and then has done nothing.
CREATE FUNCTION post(
    now BIGINT, keys TEXT, senders TEXT, texts TEXT, firsts TEXT, rests TEXT, places TEXT, heads TEXT
) RETURNS TABLE (what BIGINT, nth BIGINT, number BIGINT) LANGUAGE plpgsql
-- Plans are made while the tables are small and stay when they are not; and heads are locked in the order of their index.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    key TEXT[] := string_to_array(keys, ',');
    sender TEXT[] := string_to_array(senders, chr(31));
    begin_text TEXT[] := string_to_array(texts, chr(31));
    rest TEXT[] := string_to_array(rests, chr(31));
    first BIGINT[] := firsts;
    place BIGINT[] := places;
    head_of BIGINT[] := heads;
    tops BIGINT[];
    seqs BIGINT[];
    ids BIGINT[];
BEGIN
    RETURN QUERY SELECT 1::BIGINT, k.n, s.letter FROM unnest(key) WITH ORDINALITY AS k (key, n)
    JOIN seen AS s ON s.key = k.key;
    IF FOUND THEN
        RETURN;
    END IF;

    WITH moved AS (
        UPDATE head AS h SET seq = h.seq + w.wanted
        FROM (SELECT head_of[g] AS inbox, head_of[g + 1] AS wanted, head_of[g + 2] AS changes
              FROM generate_series(1, array_length(head_of, 1), 3) AS g) AS w
        WHERE h.inbox = w.inbox AND w.changes IN (0, h.changes) RETURNING h.inbox, h.seq)
    SELECT array_agg(m.seq ORDER BY m.inbox) INTO tops FROM moved AS m;
    IF COALESCE(array_length(tops, 1), 0) <> COALESCE(array_length(head_of, 1), 0) / 3 THEN
        RAISE EXCEPTION 'the devices of a recipient changed' USING ERRCODE = 'AU001';
    END IF;

    SELECT array_agg(tops[place[g]] - place[g + 1] ORDER BY g) INTO seqs
    FROM generate_series(1, array_length(place, 1), 4) AS g;
    SELECT array_agg(nextval('letter_id_seq')) INTO ids FROM generate_series(1, array_length(key, 1));
    INSERT INTO seen (key, letter) SELECT * FROM unnest(key, ids);
    INSERT INTO letter (id, at, data)
    SELECT w.id, now, CASE first[w.n + 1] - first[w.n]
        WHEN 1 THEN concat(w.text, seqs[first[w.n]], rest[first[w.n]])
        ELSE concat(w.text, (SELECT string_agg(seqs[i] || rest[i], '' ORDER BY i)
                             FROM generate_series(first[w.n], first[w.n + 1] - 1) AS i)) END
    FROM unnest(ids, begin_text) WITH ORDINALITY AS w (id, text, n);
    INSERT INTO entry (inbox, seq, letter, copy, sender)
    SELECT head_of[place[g] * 3 - 2], seqs[(g + 3) / 4], ids[place[g + 2]], place[g + 3], sender[place[g + 2]]
    FROM generate_series(1, array_length(place, 1), 4) AS g;
    RETURN QUERY SELECT 0::BIGINT, u.n, u.seq FROM unnest(seqs) WITH ORDINALITY AS u (seq, n);
END $$;

-- Moves cursors forward, never back and never beyond what was sent. Gives for each where it was and where it is.
--   wanted   [[inbox, slot, sender, seq], …], sorted so that two calls never wait for each other
CREATE FUNCTION advance(wanted TEXT) RETURNS TABLE (nth BIGINT, was BIGINT, is_now BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    w RECORD;
BEGIN
    FOR w IN
        SELECT v.n, CAST(v.value ->> 0 AS BIGINT) AS inbox, v.value ->> 1 AS slot, v.value ->> 2 AS sender,
               CAST(v.value ->> 3 AS BIGINT) AS seq
        FROM json_array_elements(CAST(wanted AS JSON)) WITH ORDINALITY AS v (value, n)
    LOOP
        nth := w.n;
        SELECT LEAST(w.seq, h.seq) INTO is_now FROM head AS h WHERE h.inbox = w.inbox;
        SELECT c.seq INTO was FROM cursor AS c
        WHERE c.inbox = w.inbox AND c.slot = w.slot AND c.sender = w.sender FOR UPDATE;
        was := COALESCE(was, 0);
        is_now := GREATEST(was, COALESCE(is_now, 0));
        IF is_now > was THEN
            INSERT INTO cursor AS c (inbox, slot, sender, seq) VALUES (w.inbox, w.slot, w.sender, is_now)
            ON CONFLICT (inbox, slot, sender) DO UPDATE SET seq = GREATEST(c.seq, excluded.seq)
            RETURNING c.seq INTO is_now;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
