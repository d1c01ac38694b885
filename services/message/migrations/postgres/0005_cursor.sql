-- A cursor that does not exist yet cannot be locked: of two processes that moved one for the first time, both said that
-- it was they who moved it. Now it is made first and then locked.
CREATE OR REPLACE FUNCTION advance(wanted TEXT) RETURNS TABLE (nth BIGINT, was BIGINT, is_now BIGINT) LANGUAGE plpgsql AS $$
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
        IF was IS NULL AND is_now > 0 THEN
            INSERT INTO cursor (inbox, slot, sender, seq) VALUES (w.inbox, w.slot, w.sender, 0) ON CONFLICT DO NOTHING;
            SELECT c.seq INTO was FROM cursor AS c
            WHERE c.inbox = w.inbox AND c.slot = w.slot AND c.sender = w.sender FOR UPDATE;
        END IF;
        was := COALESCE(was, 0);
        is_now := GREATEST(was, COALESCE(is_now, 0));
        IF is_now > was THEN
            UPDATE cursor AS c SET seq = is_now
            WHERE c.inbox = w.inbox AND c.slot = w.slot AND c.sender = w.sender;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
