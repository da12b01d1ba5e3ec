-- start: everything the engine stores, in the first version of the schema.
--
-- Times are microseconds since 1970 in UTC, lengths of time are microseconds. A job is named by its
-- generation in every table. Its wide row in `job` is written once and rewritten only when a run did not
-- end it; where it stands is said by one narrow row: in `ready`, `parked`, `running` or `ended`.

create sequence {schema}.generation as bigint;

-- A queue, a task and a priority. Never deleted, so that any process may remember the numbers.
create table {schema}.lane (
    number integer generated always as identity primary key,
    queue text not null,
    task text not null,
    priority smallint not null,
    unique (queue, task, priority)
);

-- `entered` is the generation a job was created with: it names the job in `history` and never changes.
-- `lane` and `ready_at` repeat what its row in `ready` or `parked` says, so that this row can be found.
-- `epoch` counts the loans that have come back; the one in force is in `running`.
-- `serial` is the digest of what must not overlap; `chain` its name where it is not the task and the key.
create table {schema}.job (
    generation bigint primary key,
    entered bigint not null,
    ready_at bigint not null,
    due bigint not null,
    created_at bigint not null,
    keep_done bigint not null,
    keep_failed bigint not null,
    expires_at bigint,
    expires_after bigint,
    tick bigint,
    first_failure bigint,
    lane integer not null,
    epoch integer not null default 0,
    attempt integer not null default 0,
    crashes integer not null default 0,
    deferrals integer not null default 0,
    cycle integer not null default 0,
    per_key integer not null,
    perpetual boolean not null,
    is_suspect boolean not null default false,
    serial uuid,
    overlap text not null check (overlap in ({overlaps})),
    delivery text not null check (delivery in ({deliveries})),
    id text collate "C" not null unique,
    key text,
    chain text,
    context text not null,
    arguments text not null,
    error text
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- find by key, revive: whatever became of the job. A key may be longer than an index allows.
create index job_key on {schema}.job (hashtextextended(key, 0)) where key is not null;

-- find by a part of the error text, among live jobs.
create index job_error on {schema}.job (generation) where error is not null;

-- claim: what may be lent, lane by lane. Nothing else is ever read from it.
create table {schema}.ready (
    lane integer not null,
    has_serial boolean not null,
    ready_at bigint not null,
    generation bigint not null,
    primary key (lane, ready_at, generation)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- Jobs that wait behind another of their serial: outside the ready set, so nobody walks over them.
create table {schema}.parked (
    generation bigint primary key,
    lane integer not null,
    ready_at bigint not null
);

-- Jobs on loan. Nothing but claim and settle (and the recovery within a claim) writes these rows.
create table {schema}.running (
    generation bigint primary key,
    seed bigint not null,
    keep_done bigint not null,
    lane integer not null,
    worker integer not null,
    epoch integer not null,
    serial uuid
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- claim: how many of each lane are on loan, for tasks with a limit; and which serials are.
create index running_lane on {schema}.running (lane);
create index running_serial on {schema}.running (serial) where serial is not null;

-- What others said about a run: it is superseded, or somebody wishes something of it. Gone with the run.
create table {schema}.notice (
    generation bigint primary key,
    epoch integer not null,
    superseded_by text,
    wish text check (wish in ({wishes}))
);

-- What a run said about itself: that its body began, and how far it has come.
create table {schema}.remark (
    generation bigint primary key,
    epoch integer not null,
    has_begun boolean not null default false,
    began_isolated boolean not null default false,
    progress text
);

-- How a job ended. With an `event`, this row is also the last line of the job's history.
create table {schema}.ended (
    generation bigint primary key,
    finished_at bigint not null,
    forget_at bigint not null,
    seed bigint,
    started_at bigint,
    result_until bigint,
    lane integer not null,
    epoch integer not null,
    worker integer,
    state text not null check (state in ({finished})),
    event text,
    reason text not null default '',
    result text,
    error text,
    superseded_by text,
    wish text check (wish in ({wishes}))
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- prune: what to forget, and results whose time is over.
create index ended_forget on {schema}.ended (forget_at);
create index ended_result on {schema}.ended (result_until) where result_until is not null;

-- find: what people look for is seldom what went well.
create index ended_state on {schema}.ended (state, generation) where state <> 'done';
create index ended_error on {schema}.ended (generation) where error is not null;

create table {schema}.history (
    number bigint generated always as identity primary key,
    entered bigint not null,
    at bigint not null,
    generation bigint not null,
    started_at bigint,
    epoch integer not null,
    attempt integer not null,
    event text not null,
    worker text not null,
    note text not null
);

create index history_entered on {schema}.history (entered, number);

-- Waiting jobs that may come too late. Rows of jobs that ended are swept out when their time has come.
create table {schema}.expiry (
    lane integer not null,
    expires_at bigint not null,
    generation bigint not null,
    primary key (lane, expires_at, generation)
);

-- What must not overlap, by digest. The row is only there to be locked.
create table {schema}.serial (
    digest uuid primary key
);

-- Live jobs of each serial.
create table {schema}.standing (
    serial uuid not null,
    generation bigint not null,
    primary key (serial, generation)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

-- A duplicate guard in force for a serial, and the job whose request was accepted. The serial's name goes
-- along when everything moves to a store that has no digests.
create table {schema}.guard (
    serial uuid primary key,
    until bigint not null,
    id text not null,
    name text not null
);

create index guard_until on {schema}.guard (until);

-- A perpetual that was stopped stays stopped: pruning never touches these.
create table {schema}.marker (
    serial uuid primary key,
    at bigint not null,
    name text not null
);

-- One lease per worker covers all it holds. A lease that ran out is cleared when its jobs were taken back.
-- Room on the page keeps a heartbeat from touching any index.
create table {schema}.worker (
    number integer generated always as identity primary key,
    id text collate "C" not null unique,
    lease_until bigint not null,
    seen_at bigint not null,
    started_at bigint not null,
    pid integer not null,
    slots integer not null,
    is_cleared boolean not null default false,
    has_left boolean not null default false,
    name text not null,
    host text not null,
    version text not null,
    queues text not null,
    tasks text not null
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 200
);

create table {schema}.switch (
    number integer generated always as identity,
    scope text not null,
    name text not null,
    until bigint,
    reason text not null,
    primary key (scope, name)
);

create table {schema}.lock (
    name text primary key,
    owner text not null,
    token bigint not null,
    until bigint not null
);

create table {schema}.record (
    kind text not null,
    name text not null,
    text text not null,
    primary key (kind, name)
);

-- Starts of tasks with a rate limit, as far back as their window reaches.
create table {schema}.start (
    number bigint generated always as identity primary key,
    at bigint not null,
    task text not null
);

create index start_task on {schema}.start (task, at);

-- Keyed requests committed with a transaction of the caller, waiting for the engine to place them.
-- One that could not be read is set aside with the number of the format its reader knew, so that only a
-- reader of a newer format looks at it again.
create table {schema}.intake (
    number bigint generated always as identity primary key,
    offered_at bigint not null,
    set_aside integer not null default 0,
    id text collate "C" not null,
    key text,
    request text not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off
);

create index intake_unread on {schema}.intake (set_aside, number);

-- Serials whose job was ended inside a caller's transaction, which may not see who waits behind it.
create table {schema}.freed (
    number bigint generated always as identity primary key,
    serial uuid not null
);

-- Things counted for people, as amounts to be added up: one row for all would make writers queue.
create table {schema}.tally (
    number bigint generated always as identity primary key,
    amount bigint not null,
    name text not null
);

-- What relays brought from an outbox, remembered for longer than any of them can be late: each request, and
-- the number of the last one of each serial.
create table {schema}.delivered (
    id text collate "C" primary key,
    until bigint not null
);

create index delivered_until on {schema}.delivered (until);

create table {schema}.number (
    outbox text collate "C" not null,
    serial uuid not null,
    number bigint not null,
    until bigint not null,
    primary key (outbox, serial)
);

create index number_until on {schema}.number (until);

-- The notice at the door while everything is being carried elsewhere, or is arriving: one row or none. Every
-- write reads it, so whoever locks the table waits for the writes in progress. `seal` is above 1 while it
-- hangs there: a sequence is seen as it is now, also by a transaction of the caller with an old snapshot.
create table {schema}.house (
    only_one boolean primary key default true check (only_one),
    stage text not null,
    move text not null,
    other text not null,
    cursor bigint not null default 0
);

create sequence {schema}.seal as bigint;
