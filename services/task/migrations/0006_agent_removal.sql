-- What is kept for agents that ended before this second is removed.
CREATE TABLE agent_removal (
    done_until BIGINT NOT NULL
);
INSERT INTO agent_removal (done_until) VALUES (0);
