-- Answers and documents have tables of their own, so that a reply that streams rewrites nothing else.

CREATE TABLE session (
    number INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    title TEXT NOT NULL,
    model TEXT NOT NULL,
    system TEXT NOT NULL,
    unsent INTEGER NOT NULL,
    exchanges INTEGER NOT NULL,
    created REAL NOT NULL,
    changed REAL NOT NULL,
    deleted REAL,
    -- The revision that the search index knows, -1 for none.
    indexed INTEGER NOT NULL DEFAULT -1
);
CREATE TABLE exchange (
    session INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
    -- Below 0 for versions that are not shown. fork and place say of what, and which (see store_rows.py).
    position INTEGER NOT NULL,
    question TEXT NOT NULL,
    fork INTEGER,
    place INTEGER,
    PRIMARY KEY (session, position)
);
CREATE TABLE document (
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session, position, place),
    FOREIGN KEY (session, position) REFERENCES exchange (session, position) ON DELETE CASCADE
);
CREATE TABLE answer (
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    text TEXT NOT NULL,
    details BLOB NOT NULL,
    PRIMARY KEY (session, position),
    FOREIGN KEY (session, position) REFERENCES exchange (session, position) ON DELETE CASCADE
);
CREATE INDEX session_changed ON session (changed)
