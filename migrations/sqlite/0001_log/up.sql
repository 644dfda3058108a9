-- The log and what stands beside it. STRICT everywhere: a column holds what it says.
-- WITHOUT ROWID clusters each log by its key, so one of many logs is read in order.

CREATE TABLE logs (
    log_id           INTEGER PRIMARY KEY,
    name             TEXT    NOT NULL UNIQUE,
    epoch            TEXT    NOT NULL,
    floor            INTEGER NOT NULL DEFAULT 0,
    purged_through   INTEGER NOT NULL DEFAULT 0,
    purge_generation INTEGER NOT NULL DEFAULT 0,
    history_seconds   INTEGER,
    tombstone_seconds INTEGER,
    created_at       INTEGER NOT NULL -- microseconds since 1970, as every time here
) STRICT;

-- Append-only. Head, counts and fingerprints are read off the last row of a log or of a resource, so there
-- is no counter that could drift.
CREATE TABLE changes (
    log_id      INTEGER NOT NULL,
    seq         INTEGER NOT NULL CHECK (seq > 0),
    resource    TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    deleted     INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    time        INTEGER NOT NULL,
    prev        INTEGER,
    tx          INTEGER NOT NULL,
    count       INTEGER NOT NULL, -- live entities of the log after this change
    fingerprint INTEGER NOT NULL, -- and their fingerprint, as signed 64 bits
    resource_count       INTEGER NOT NULL,
    resource_fingerprint INTEGER NOT NULL,
    line        TEXT    NOT NULL, -- the finished bytes, without the line feed
    PRIMARY KEY (log_id, seq)
) STRICT, WITHOUT ROWID;
-- Feed with id=, and "is there a newer line of this entity": compact reads.
CREATE INDEX changes_by_entity ON changes (log_id, resource, id, seq);
-- Feed with resource=, and the last change of a resource.
CREATE INDEX changes_by_resource ON changes (log_id, resource, seq);
-- Compact reads that go on from a cursor.
CREATE INDEX changes_tombstones ON changes (log_id, seq) WHERE deleted;

-- The live entities: where the newest line of each stands.
CREATE TABLE entities (
    log_id   INTEGER NOT NULL,
    resource TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    bucket   INTEGER NOT NULL,
    PRIMARY KEY (log_id, resource, id)
) STRICT, WITHOUT ROWID;
-- Compact bootstrap: live entities in the order of their lines.
CREATE INDEX entities_by_seq ON entities (log_id, seq);

-- Declared references that live entities hold, found from their target.
CREATE TABLE links (
    log_id          INTEGER NOT NULL,
    target_resource TEXT    NOT NULL,
    target_id       TEXT    NOT NULL,
    resource        TEXT    NOT NULL,
    id              TEXT    NOT NULL,
    member          TEXT    NOT NULL,
    PRIMARY KEY (log_id, target_resource, target_id, resource, id, member)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    log_id     INTEGER NOT NULL,
    method     TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    body_hash  BLOB    NOT NULL,
    answer     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (log_id, method, path, key)
) STRICT, WITHOUT ROWID;
-- Forgetting old answers.
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE keys (
    key_id     TEXT    NOT NULL PRIMARY KEY,
    hash       BLOB    NOT NULL UNIQUE,
    log_id     INTEGER, -- NULL: all logs
    scopes     TEXT    NOT NULL, -- words, comma between
    resources  TEXT, -- names, comma between; NULL: all
    name       TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

-- What the server must remember about the database as a whole.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
