-- What a chain of refresh tokens depends on: the key that logged in, and which revocation of all tokens of the agent was the last one
-- at that moment (its `revoked_at`, 0 if there was none). A token that was made before a later one is not valid, also if its
-- row is stored after that revocation has deleted the others.
ALTER TABLE refresh_tokens ADD COLUMN login_key TEXT;
ALTER TABLE refresh_tokens ADD COLUMN after_revocation BIGINT NOT NULL DEFAULT 0;
UPDATE refresh_tokens SET after_revocation =
    COALESCE((SELECT revoked_at FROM revocations WHERE revocations.aid = refresh_tokens.aid), 0);
CREATE INDEX refresh_tokens_of_chain ON refresh_tokens (chain);
