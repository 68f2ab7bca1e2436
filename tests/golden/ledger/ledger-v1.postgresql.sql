CREATE TABLE api_keys (
    id TEXT NOT NULL,
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    corpora TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    revoked_at FLOAT,
    PRIMARY KEY (id),
    UNIQUE (hash)
);
CREATE TABLE days (
    day TEXT NOT NULL,
    reserved_nanousd BIGINT NOT NULL,
    reserved_pages BIGINT NOT NULL,
    spent_nanousd BIGINT NOT NULL,
    spent_pages BIGINT NOT NULL,
    PRIMARY KEY (day)
);
CREATE TABLE dead_letters (
    id TEXT NOT NULL,
    event_id TEXT,
    run_id TEXT,
    stage TEXT NOT NULL,
    kind TEXT,
    reason TEXT NOT NULL,
    exception_type TEXT NOT NULL,
    message TEXT NOT NULL,
    stack TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    deliveries BIGINT NOT NULL,
    first_seen FLOAT NOT NULL,
    last_seen FLOAT NOT NULL,
    worker TEXT,
    traceparent TEXT,
    payload BYTEA NOT NULL,
    sha256 TEXT NOT NULL,
    replay_count BIGINT NOT NULL,
    status TEXT NOT NULL,
    operator TEXT,
    note TEXT,
    PRIMARY KEY (id),
    UNIQUE (event_id)
);
CREATE INDEX dead_letters_alike ON dead_letters (fingerprint);
CREATE INDEX dead_letters_of_run ON dead_letters (run_id);
CREATE INDEX dead_letters_seen ON dead_letters (status, last_seen);
CREATE TABLE events (
    seq BIGSERIAL NOT NULL,
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT,
    status TEXT NOT NULL,
    due_at FLOAT,
    epoch BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    deliveries BIGINT NOT NULL,
    deaths BIGINT NOT NULL,
    worker TEXT,
    dedupe_key TEXT,
    reserve_nanousd BIGINT NOT NULL,
    reserve_pages BIGINT NOT NULL,
    reserved_on TEXT,
    created_at FLOAT NOT NULL,
    settled_at FLOAT,
    why TEXT,
    payload TEXT NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE (id)
);
CREATE UNIQUE INDEX events_dedupe ON events (run_id, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX events_due ON events (status, due_at, queue) WHERE due_at IS NOT NULL;
CREATE INDEX events_of_kind ON events (run_id, kind);
CREATE INDEX events_of_run ON events (run_id, seq);
CREATE INDEX events_open ON events (run_id, due_at) WHERE due_at IS NOT NULL;
CREATE TABLE leases (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    until FLOAT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE operator_actions (
    seq BIGSERIAL NOT NULL,
    at FLOAT NOT NULL,
    operator TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_operator_actions_subject ON operator_actions (subject);
CREATE TABLE runs (
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    corpus TEXT NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    query TEXT,
    idempotency_key TEXT,
    request_sha256 TEXT NOT NULL,
    traceparent TEXT,
    created_at FLOAT NOT NULL,
    deadline_at FLOAT,
    answer_due_at FLOAT,
    finished_at FLOAT,
    run_nanousd BIGINT NOT NULL,
    run_pages BIGINT NOT NULL,
    day_nanousd BIGINT NOT NULL,
    day_pages BIGINT NOT NULL,
    reserved_nanousd BIGINT NOT NULL,
    reserved_pages BIGINT NOT NULL,
    spent_nanousd BIGINT NOT NULL,
    spent_pages BIGINT NOT NULL,
    spent_bytes BIGINT NOT NULL,
    spent_tokens BIGINT NOT NULL,
    spent_milliseconds FLOAT NOT NULL,
    settled_events BIGINT NOT NULL,
    dead_letters BIGINT NOT NULL,
    journal_offset BIGINT,
    generation TEXT,
    PRIMARY KEY (run_id)
);
CREATE INDEX runs_answer_due ON runs (answer_due_at) WHERE answer_due_at IS NOT NULL;
CREATE UNIQUE INDEX runs_idempotency ON runs (owner, idempotency_key);
CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    PRIMARY KEY (version)
);
