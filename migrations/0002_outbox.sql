-- The outbox: messages that transactions decided to send, and how far relays have come.
-- Creates new tables only: it locks nothing that is in use, and is safe to run online.

-- Numbers of messages, in the order in which they leave. CACHE 1: a session that keeps
-- numbers back would give later messages smaller ones. The first number is used up here, so
-- that last_value always is a number that was given.
CREATE SEQUENCE {{.schema}}.outbox_id CACHE 1;
SELECT pg_catalog.nextval('{{.schema}}.outbox_id');

-- Messages, written once and never changed. A slot holds a range of 2^20 ids and is emptied
-- as a whole, by TRUNCATE, when all of it has been published; so nothing here is vacuumed.
-- Columns are ordered for alignment.
--
-- xid is the transaction that wrote the row. Invariant: it is assigned before the id is
-- drawn; relays find the beginning of a window by it.
CREATE TABLE {{.schema}}.outbox (
    xid          xid8        NOT NULL DEFAULT pg_current_xact_id(),
    id           bigint      NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    slot         smallint    NOT NULL,
    bucket       smallint    NOT NULL,
    message_id   text        NOT NULL,
    topic        text        NOT NULL,
    ordering_key text,
    headers      jsonb       NOT NULL,
    payload      bytea       NOT NULL
) PARTITION BY LIST (slot);
{{range $slot := until 64}}
CREATE TABLE {{$.schema}}.outbox_slot_{{$slot}} PARTITION OF {{$.schema}}.outbox FOR VALUES IN ({{$slot}}) WITH (autovacuum_enabled = off);
CREATE INDEX outbox_slot_{{$slot}}_page ON {{$.schema}}.outbox_slot_{{$slot}} (bucket, id);
{{- end}}

-- Messages that wait for their time. When it comes they are moved to the outbox.
CREATE TABLE {{.schema}}.outbox_delayed (
    due_at       timestamptz NOT NULL,
    id           bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    bucket       smallint    NOT NULL,
    message_id   text        NOT NULL,
    topic        text        NOT NULL,
    ordering_key text,
    headers      jsonb       NOT NULL,
    payload      bytea       NOT NULL,
    CONSTRAINT outbox_delayed_id PRIMARY KEY (id)
);

-- Serves the move of what is due, oldest first.
CREATE INDEX outbox_delayed_due ON {{.schema}}.outbox_delayed (due_at, id);

-- Which outbox this is, wherever its messages go, and on which cluster its transaction
-- numbers were given.
CREATE TABLE {{.schema}}.outbox_origin (
    id                uuid   NOT NULL DEFAULT gen_random_uuid(),
    system_identifier bigint NOT NULL,
    one               boolean NOT NULL DEFAULT true,
    CONSTRAINT outbox_origin_one PRIMARY KEY (one),
    CONSTRAINT outbox_origin_only_one CHECK (one)
);
INSERT INTO {{.schema}}.outbox_origin (system_identifier) SELECT system_identifier FROM pg_catalog.pg_control_system();

-- The relays that live, so that each knows its share of the buckets.
CREATE TABLE {{.schema}}.outbox_relay (
    relay       uuid        NOT NULL,
    alive_until timestamptz NOT NULL,
    CONSTRAINT outbox_relay_once PRIMARY KEY (relay)
);

-- How far each bucket is published, and who does it. A message belongs to the window when
-- it is visible in cur and not in prev; without cur the bucket is between two windows.
-- ahead is how many of the next messages the owner may have published, -1 if that is not
-- known; saved_at is when the cursor was last saved with it known. Room is left in the page, so that updates stay in it.
CREATE TABLE {{.schema}}.outbox_bucket (
    epoch       bigint      NOT NULL DEFAULT 0,
    last_id     bigint      NOT NULL DEFAULT 0,
    high_id     bigint      NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    saved_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ahead       integer     NOT NULL DEFAULT 0,
    bucket      smallint    NOT NULL,
    owner       uuid,
    prev        pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    cur         pg_snapshot,
    mark        text        NOT NULL DEFAULT '',
    CONSTRAINT outbox_bucket_once PRIMARY KEY (bucket)
) WITH (fillfactor = 10);
INSERT INTO {{.schema}}.outbox_bucket (bucket) SELECT generate_series(0, 15);

-- Every id that a transaction numbered xid or later has drawn is greater than last_id.
CREATE TABLE {{.schema}}.outbox_tick (
    xid     xid8        NOT NULL,
    last_id bigint      NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT outbox_tick_xid PRIMARY KEY (xid)
);
INSERT INTO {{.schema}}.outbox_tick (xid, last_id, at) VALUES ('0', 0, '-infinity');

-- Messages that could not be published, and the later ones of their ordering key. Without a
-- key a message stands for itself alone. dead_at: it was given up; released: its key goes
-- on without it.
CREATE TABLE {{.schema}}.outbox_parked (
    id           bigint      NOT NULL,
    at           timestamptz NOT NULL,
    parked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at      timestamptz NOT NULL,
    dead_at      timestamptz,
    attempts     integer     NOT NULL,
    bucket       smallint    NOT NULL,
    released     boolean     NOT NULL DEFAULT false,
    message_id   text        NOT NULL,
    topic        text        NOT NULL,
    ordering_key text,
    last_error   text        NOT NULL,
    headers      jsonb       NOT NULL,
    payload      bytea       NOT NULL,
    CONSTRAINT outbox_parked_id PRIMARY KEY (id)
);

-- Serves the owner of a bucket, which looks for what holds its keys up.
CREATE INDEX outbox_parked_waiting ON {{.schema}}.outbox_parked (bucket, ordering_key, id) WHERE NOT released;

-- What operators did to parked messages, and to the outbox.
CREATE TABLE {{.schema}}.outbox_audit (
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    parked     bigint,
    verb       text        NOT NULL,
    who        text        NOT NULL,
    why        text        NOT NULL,
    message_id text        NOT NULL DEFAULT '',
    topic      text        NOT NULL DEFAULT '',
    detail     text        NOT NULL DEFAULT '',
    CONSTRAINT outbox_audit_id PRIMARY KEY (id)
);
