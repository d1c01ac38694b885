-- The agent whose conversation a run is, if it is one.
ALTER TABLE run ADD COLUMN agent TEXT;

-- A conversation of an agent, by the UUID that its front end has given it. It is a session of runs, and `run_id` is the run in which its
-- turns are now: the `generation`th one. Its numbers in the frames of the conversation begin behind `base`. `last_item` is the last whole
-- message of a back end that is stored, so that it is not stored again when it is said to be the reply. `event_bytes` and `event_rows` are
-- what the events of its turns count for the agent.
CREATE TABLE agui_thread (
    id TEXT PRIMARY KEY,
    aid TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    generation BIGINT NOT NULL,
    base BIGINT NOT NULL,
    last_message BIGINT NOT NULL,
    last_position BIGINT NOT NULL,
    last_item TEXT NOT NULL,
    event_bytes BIGINT NOT NULL,
    event_rows BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX agui_thread_of_agent ON agui_thread (aid, updated_at, id);
CREATE UNIQUE INDEX agui_thread_of_run ON agui_thread (run_id);
CREATE INDEX agui_thread_old ON agui_thread (updated_at);

-- A run as its front end knows it: a turn of a run of the manager (`task_id`), or the rest of one behind the answers to its questions.
-- `position` counts from 1 in its thread. `starts_at` and `ends_at` are the numbers of the first and last event of its turn.
CREATE TABLE agui_run (
    thread_id TEXT NOT NULL,
    id TEXT NOT NULL,
    aid TEXT NOT NULL,
    position BIGINT NOT NULL,
    task_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    base BIGINT NOT NULL,
    input TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    parent_id TEXT,
    has_protocol BIGINT NOT NULL,
    answers TEXT NOT NULL,
    starts_at BIGINT,
    ends_at BIGINT,
    ended_at BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (thread_id, id)
);
CREATE INDEX agui_run_of_thread ON agui_run (thread_id, position);
CREATE INDEX agui_run_of_task ON agui_run (task_id);
CREATE INDEX agui_run_open ON agui_run (created_at) WHERE ended_at IS NULL;

-- What was said: by users when it is accepted, by back ends with the events of their turns. What is not `shown` is kept: messages of turns
-- that have not completed, and calls of tools.
CREATE TABLE agui_message (
    thread_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    aid TEXT NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    attachments TEXT,
    ui_schema TEXT,
    task_id TEXT NOT NULL,
    shown BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (thread_id, seq)
);
CREATE INDEX agui_message_of_task ON agui_message (task_id);
CREATE INDEX agui_message_shown ON agui_message (thread_id, created_at, seq) WHERE shown = 1;

-- What front ends know of an agent.
CREATE TABLE agui_profile (
    aid TEXT PRIMARY KEY,
    timezone TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Pictures: their bytes are in the folder of the service, by `path`. One that no message has used is removed after a day.
CREATE TABLE agui_attachment (
    path TEXT PRIMARY KEY,
    aid TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    stored_rows BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    task_id TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX agui_attachment_unused ON agui_attachment (created_at) WHERE task_id IS NULL;
CREATE INDEX agui_attachment_of_agent ON agui_attachment (aid, created_at);
CREATE INDEX agui_attachment_of_task ON agui_attachment (task_id) WHERE task_id IS NOT NULL;

-- The key that URLs of pictures are signed with; one row.
CREATE TABLE agui_key (
    id BIGINT PRIMARY KEY,
    value TEXT NOT NULL
);

INSERT INTO run_task_worker (name, fence, leased_until) VALUES ('front ends', 0, 0);

-- Until when this service has removed what belonged to agents that are no more.
CREATE TABLE agent_removal (
    done_until BIGINT NOT NULL
);
INSERT INTO agent_removal (done_until) VALUES (0);
