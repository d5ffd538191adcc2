-- Claims of the transactional path, failures and dead letters. Creates new tables only:
-- it locks nothing that is in use, and is safe to run online.

-- The one clock. Tests replace it to move time; everything that judges an age asks it.
CREATE FUNCTION {{.schema}}.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp()';

-- Small numbers for consumers, so that a claim stays narrow. A shadow consumer only
-- observes: its claims are apart from real ones.
CREATE TABLE {{.schema}}.consumer (
    id        smallint    GENERATED ALWAYS AS IDENTITY,
    shadow    boolean     NOT NULL,
    retention interval    NOT NULL,
    name      text        NOT NULL,
    CONSTRAINT consumer_id PRIMARY KEY (id),
    CONSTRAINT consumer_once UNIQUE (name, shadow),
    CONSTRAINT consumer_name_fits CHECK (octet_length(name) BETWEEN 1 AND 128)
);

-- A row is a claim that was committed with its effect, or one whose message was given up.
-- Rows are only inserted, and swept when their retention is over. Columns are ordered for
-- alignment. They are not analyzed while they are small: a plan that reads a table of a few
-- rows as a whole would be kept while it grows. Claims whose key has a stable time are in the ring instead, a table for the
-- day of that time. These are tables and not partitions: a claim knows its table, and
-- finding it again costs the server a fiftieth of a message.
CREATE TABLE {{.schema}}.inbox (
    at          timestamptz NOT NULL DEFAULT now(),
    consumer    smallint    NOT NULL,
    failed      boolean     NOT NULL DEFAULT false,
    claim_id    uuid        NOT NULL,
    fingerprint bytea,
    CONSTRAINT inbox_claim_once PRIMARY KEY (claim_id)
) WITH (autovacuum_analyze_threshold = 10000);
{{range $day := until 64}}
CREATE TABLE {{$.schema}}.inbox_day_{{$day}} (
    LIKE {{$.schema}}.inbox INCLUDING DEFAULTS, CONSTRAINT inbox_day_{{$day}}_claim_once PRIMARY KEY (claim_id)
) WITH (autovacuum_analyze_threshold = 10000);
{{- end}}

-- All claims, for people; day is NULL beside the ring.
CREATE VIEW {{.schema}}.claims AS
SELECT at, consumer, failed, claim_id, fingerprint, NULL::integer AS day FROM {{.schema}}.inbox
{{- range $day := until 64}}
UNION ALL SELECT at, consumer, failed, claim_id, fingerprint, {{$day}} FROM {{$.schema}}.inbox_day_{{$day}}
{{- end}};

-- Failed runs of messages that have no claim yet. Written on failure only.
CREATE TABLE {{.schema}}.inbox_attempt (
    claim_id uuid        NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at  timestamptz NOT NULL DEFAULT now(),
    attempts integer     NOT NULL DEFAULT 1,
    consumer smallint    NOT NULL,
    class    text        NOT NULL,
    CONSTRAINT inbox_attempt_claim PRIMARY KEY (claim_id)
);

-- Messages that were given up, whole. Text that Postgres can not hold (NUL, invalid UTF-8),
-- in metadata too, is kept as "base64:" and its encoding.
CREATE TABLE {{.schema}}.dead_letter (
    id         uuid        NOT NULL,
    claim_id   uuid,
    first_at   timestamptz NOT NULL DEFAULT now(),
    last_at    timestamptz NOT NULL DEFAULT now(),
    attempts   integer     NOT NULL,
    seen       integer     NOT NULL DEFAULT 1,
    consumer   smallint    NOT NULL,
    class      text        NOT NULL,
    reason     text        NOT NULL,
    topic      text        NOT NULL,
    message_id text        NOT NULL,
    metadata   jsonb       NOT NULL,
    payload    bytea       NOT NULL,
    CONSTRAINT dead_letter_once PRIMARY KEY (id)
);

-- Serves the list of a consumer's letters, newest first.
CREATE INDEX dead_letter_newest ON {{.schema}}.dead_letter (consumer, last_at DESC, id);
