-- Stores letters whose numbers the caller has given them already, or nothing at all. It is most of what happens where one
-- process writes, and a third less work than `post`, which is called when this one fails: because a number is taken, a
-- letter was stored before, numbers up to these were removed, or a recipient's devices changed.
--   keys, senders, texts        of each letter, as in post; the texts are whole
--   inboxes, seqs, changes      of each place, in the order of the inboxes
--   letters                     which letter it is a place of; negative where it is not that letter's first
CREATE FUNCTION post_numbered(
    now BIGINT, keys TEXT, senders TEXT, texts TEXT, inboxes TEXT, seqs TEXT, changes TEXT, letters TEXT
) RETURNS VOID LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    key_of UUID[] := CAST(string_to_array(keys, ',') AS UUID[]);
    sender_of TEXT[] := string_to_array(senders, chr(31));
    text_of TEXT[] := string_to_array(texts, chr(31));
    ids BIGINT[];
BEGIN
    SELECT array_agg(nextval('letter_id_seq')) INTO ids FROM generate_series(1, array_length(key_of, 1));
    -- An array has nothing at a negative place, and where no head fits, `deep` has no value and all of it fails.
    INSERT INTO letter (id, at, inbox, seq, whole, deep, key, sender, data)
    SELECT COALESCE(ids[p.letter], nextval('letter_id_seq')), now, p.inbox, p.seq, ids[-p.letter],
           p.seq > h.floor + shallow(), key_of[p.letter], sender_of[abs(p.letter)], text_of[p.letter]
    FROM unnest(CAST(inboxes AS BIGINT[]), CAST(seqs AS BIGINT[]), CAST(changes AS BIGINT[]), CAST(letters AS BIGINT[]))
         AS p (inbox, seq, changes, letter)
    LEFT JOIN head AS h ON h.inbox = p.inbox AND p.changes IN (0, h.changes) AND p.seq > h.floor;
END $$;
