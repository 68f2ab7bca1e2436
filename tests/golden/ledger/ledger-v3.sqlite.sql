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
    reserved_nanousd BIGINT DEFAULT '0' NOT NULL,
    reserved_pages BIGINT DEFAULT '0' NOT NULL,
    reserved_bytes BIGINT DEFAULT '0' NOT NULL,
    reserved_tokens BIGINT DEFAULT '0' NOT NULL,
    reserved_microseconds BIGINT DEFAULT '0' NOT NULL,
    spent_nanousd BIGINT DEFAULT '0' NOT NULL,
    spent_pages BIGINT DEFAULT '0' NOT NULL,
    spent_bytes BIGINT DEFAULT '0' NOT NULL,
    spent_tokens BIGINT DEFAULT '0' NOT NULL,
    spent_microseconds BIGINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (day)
);
CREATE TABLE dead_letter_payloads (
    seq INTEGER NOT NULL,
    letter_id TEXT NOT NULL,
    at FLOAT NOT NULL,
    operator TEXT NOT NULL,
    payload BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_dead_letter_payloads_letter_id ON dead_letter_payloads (letter_id);
CREATE TABLE dead_letters (
    id TEXT NOT NULL,
    event_id TEXT,
    run_id TEXT,
    cause_id TEXT,
    corpus TEXT,
    stage TEXT NOT NULL,
    kind TEXT,
    schema_version INTEGER,
    code_version TEXT DEFAULT '' NOT NULL,
    idempotency_key TEXT,
    reason TEXT NOT NULL,
    exception_type TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    attempts BIGINT DEFAULT '0' NOT NULL,
    deliveries BIGINT DEFAULT '0' NOT NULL,
    first_seen FLOAT NOT NULL,
    last_seen FLOAT NOT NULL,
    worker TEXT,
    traceparent TEXT,
    sha256 TEXT NOT NULL,
    replay_count BIGINT DEFAULT '0' NOT NULL,
    status TEXT NOT NULL,
    replayed_as TEXT,
    replay_id TEXT,
    operator TEXT,
    note TEXT,
    message TEXT NOT NULL,
    stack TEXT NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (event_id)
);
CREATE INDEX dead_letters_alike ON dead_letters (status, fingerprint, id, first_seen, last_seen);
CREATE INDEX dead_letters_of_run ON dead_letters (run_id);
CREATE INDEX dead_letters_order ON dead_letters (status, id);
CREATE INDEX dead_letters_replayed ON dead_letters (replay_id, status);
CREATE INDEX dead_letters_seen ON dead_letters (status, last_seen, id);
CREATE TABLE events (
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT,
    status TEXT NOT NULL,
    due_at FLOAT,
    epoch BIGINT DEFAULT '0' NOT NULL,
    attempts BIGINT DEFAULT '0' NOT NULL,
    deliveries BIGINT DEFAULT '0' NOT NULL,
    deaths BIGINT DEFAULT '0' NOT NULL,
    worker TEXT,
    dedupe_key TEXT,
    lane TEXT DEFAULT '' NOT NULL,
    priority INTEGER DEFAULT '0' NOT NULL,
    turn BIGINT DEFAULT '0' NOT NULL,
    replay_traceparent TEXT,
    reserve_nanousd BIGINT DEFAULT '0' NOT NULL,
    reserve_pages BIGINT DEFAULT '0' NOT NULL,
    reserve_bytes BIGINT DEFAULT '0' NOT NULL,
    reserve_tokens BIGINT DEFAULT '0' NOT NULL,
    reserve_microseconds BIGINT DEFAULT '0' NOT NULL,
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
CREATE INDEX events_in_lane ON events (queue, priority, lane, turn) WHERE status = 'ready';
CREATE INDEX events_of_kind ON events (run_id, kind);
CREATE INDEX events_of_run ON events (run_id, seq);
CREATE INDEX events_open ON events (run_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX events_ready ON events (queue, priority, turn, seq) WHERE status = 'ready';
CREATE INDEX events_suspect ON events (queue) WHERE status = 'ready' AND deaths > 0;
CREATE TABLE leases (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    until FLOAT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE operator_actions (
    seq INTEGER NOT NULL,
    at FLOAT NOT NULL,
    operator TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (seq)
);
CREATE INDEX ix_operator_actions_subject ON operator_actions (subject);
CREATE TABLE pages (
    corpus TEXT NOT NULL,
    url_sha256 BLOB NOT NULL,
    document_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    is_held INTEGER DEFAULT '0' NOT NULL,
    read_as TEXT DEFAULT '' NOT NULL,
    rendered INTEGER DEFAULT '0' NOT NULL,
    fetched_at FLOAT NOT NULL,
    body_sha256 TEXT NOT NULL,
    etag TEXT,
    last_modified TEXT,
    final_url TEXT NOT NULL,
    canonical_url TEXT,
    links BLOB NOT NULL,
    nosnippet INTEGER DEFAULT '0' NOT NULL,
    withdrawn_by TEXT,
    PRIMARY KEY (corpus, url_sha256)
);
CREATE INDEX pages_fetched ON pages (fetched_at);
CREATE INDEX pages_of_document ON pages (corpus, document_id);
CREATE TABLE pauses (
    stage TEXT NOT NULL,
    since FLOAT NOT NULL,
    until FLOAT,
    why TEXT NOT NULL,
    operator TEXT,
    probes BIGINT DEFAULT '0' NOT NULL,
    PRIMARY KEY (stage)
);
CREATE TABLE replays (
    id TEXT NOT NULL,
    filter TEXT NOT NULL,
    per_second FLOAT NOT NULL,
    force INTEGER DEFAULT '0' NOT NULL,
    status TEXT NOT NULL,
    why TEXT,
    operator TEXT NOT NULL,
    note TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    updated_at FLOAT NOT NULL,
    total BIGINT DEFAULT '0' NOT NULL,
    replayed BIGINT DEFAULT '0' NOT NULL,
    skips TEXT DEFAULT '{}' NOT NULL,
    position TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX replays_status ON replays (status);
CREATE TABLE runs (
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    corpus TEXT NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    "query" TEXT,
    idempotency_key TEXT,
    request_sha256 TEXT NOT NULL,
    traceparent TEXT,
    created_at FLOAT NOT NULL,
    deadline_at FLOAT,
    answer_due_at FLOAT,
    finished_at FLOAT,
    run_nanousd BIGINT NOT NULL,
    run_pages BIGINT NOT NULL,
    run_bytes BIGINT NOT NULL,
    run_tokens BIGINT NOT NULL,
    run_microseconds BIGINT NOT NULL,
    day_nanousd BIGINT NOT NULL,
    day_pages BIGINT NOT NULL,
    day_bytes BIGINT NOT NULL,
    day_tokens BIGINT NOT NULL,
    day_microseconds BIGINT NOT NULL,
    reserved_nanousd BIGINT DEFAULT '0' NOT NULL,
    reserved_pages BIGINT DEFAULT '0' NOT NULL,
    reserved_bytes BIGINT DEFAULT '0' NOT NULL,
    reserved_tokens BIGINT DEFAULT '0' NOT NULL,
    reserved_microseconds BIGINT DEFAULT '0' NOT NULL,
    spent_nanousd BIGINT DEFAULT '0' NOT NULL,
    spent_pages BIGINT DEFAULT '0' NOT NULL,
    spent_bytes BIGINT DEFAULT '0' NOT NULL,
    spent_tokens BIGINT DEFAULT '0' NOT NULL,
    spent_microseconds BIGINT DEFAULT '0' NOT NULL,
    settled_events BIGINT DEFAULT '0' NOT NULL,
    dead_letters BIGINT DEFAULT '0' NOT NULL,
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
