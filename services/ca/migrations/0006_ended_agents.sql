-- Certificates that expired so long ago that nobody can renew them are found by their end.
CREATE INDEX certificates_by_end ON certificates (not_after) WHERE state <> 'revoked';

-- Up to which second each service has removed what it kept for agents whose AID ended. Each service that ever asked who they are has a
-- row: a name that lapsed is registered again only after all of them are behind that.
CREATE TABLE agent_removal_progress (
    service TEXT PRIMARY KEY,
    done_until BIGINT NOT NULL
);
