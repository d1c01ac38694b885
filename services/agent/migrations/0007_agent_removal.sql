-- What is kept for agents that ended before this second is removed. It begins anew: from this step on more is removed of each than before.
CREATE TABLE agent_removal (
    done_until BIGINT NOT NULL
);
INSERT INTO agent_removal (done_until) VALUES (0);
DELETE FROM agent_state WHERE name = 'revoked_since';
