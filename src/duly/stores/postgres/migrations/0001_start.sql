-- start: everything the engine stores, in the first version of the schema.
--
-- Times are microseconds since 1970 in UTC, lengths of time are microseconds. A job is named by its
-- generation in every table. Its wide row in `job` is written once and rewritten only when a run did not
-- end it; where it stands is said by one narrow row: in `ready`, `parked`, `running` or `ended`.

create sequence {schema}.generation as bigint;

-- Types and not CHECK constraints: those of a table are read and compiled anew by every statement that writes to
-- it, which took an `enqueue` 10 to 15 µs of the server.
create type {schema}.overlap as enum ({overlaps});
create type {schema}.delivery as enum ({deliveries});

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
    overlap {schema}.overlap not null,
    delivery {schema}.delivery not null,
    id text collate "C" not null unique,
    key text,
    chain text,
    context text not null,
    arguments text not null,
    error text,
    fingerprint text collate "C",
    failed_at bigint
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- find by key, revive: whatever became of the job. A key may be longer than an index allows.
create index job_key on {schema}.job (hashtextextended(key, 0)) where key is not null;

-- find by a part of the error text, among live jobs.
create index job_error on {schema}.job (generation) where error is not null;

-- failures: what failed last, and the jobs of one error, newest first, among live jobs.
create index job_failure on {schema}.job (failed_at, fingerprint) where failed_at is not null;
create index job_fingerprint on {schema}.job (fingerprint, generation) where fingerprint is not null;

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
    loan bigint generated always as identity,
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
create index running_loan on {schema}.running (lane, loan);
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
    fingerprint text collate "C",
    failed_at bigint,
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
create index ended_failure on {schema}.ended (failed_at, fingerprint) where failed_at is not null;
create index ended_fingerprint on {schema}.ended (fingerprint, generation) where fingerprint is not null;

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
-- `disowned` counts how often it handed back what it never received: no claim from before may lend any more.
-- Room on the page keeps a heartbeat from touching any index.
create table {schema}.worker (
    number integer generated always as identity primary key,
    id text collate "C" not null unique,
    lease_until bigint not null,
    seen_at bigint not null,
    started_at bigint not null,
    pid integer not null,
    slots integer not null,
    disowned integer not null default 0,
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

-- What is written down one after the other, each entry for a while: orders of operators, pulses of workers.
create table {schema}.diary (
    number bigint primary key,
    kind text not null,
    at bigint not null,
    until bigint not null,
    text text not null
) with (fillfactor = 80);

create index diary_kind on {schema}.diary (kind, number);
create index diary_until on {schema}.diary (until);

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

-- Following tables of the user's in this database. A row is named by the text of its key column, or by a JSON
-- list of such texts. Statements of the user touch nothing but `change` and, when that fails, `alarm`.

-- A table that is followed, by the columns that name its rows. `installed_at` is null without triggers.
create table {schema}.source (
    number integer generated always as identity primary key,
    name text not null,
    key text not null,
    installed_at bigint,
    unique (name, key)
);

-- A task that follows one. `scan` says how far the look at every row has come; null without one.
create table {schema}.reaction (
    number integer generated always as identity primary key,
    task text collate "C" not null unique,
    source integer,
    definition text not null,
    mark text not null,
    version integer not null,
    heard_at bigint not null,
    condition text not null,
    note text not null default '',
    scan text,
    scanned bigint not null default 0,
    reconciled_at bigint
);

-- Every definition that a worker ever brought, so that an older one is known as such.
create table {schema}.definition (
    task text collate "C" not null,
    mark text not null,
    primary key (task, mark)
);

-- Keys of changed rows, appended by triggers and consumed by planning. With a `reaction`, appended by a look
-- at every row on its behalf; a quiet one notes rows that nobody knew without running them. No index, no
-- identity: each would cost every statement of every user.
create table {schema}.change (
    source integer not null,
    reaction integer,
    is_quiet boolean,
    key text collate "C" not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- Tables of which a change may have been missed: every row of them is looked at.
create table {schema}.alarm (
    source integer not null,
    reason text not null
);

-- What is known of a row for one task: the fingerprint of the values last dealt with, and the job that did.
-- Its name is the digest of the job's serial, which is locked while it is decided on.
create table {schema}.document (
    serial uuid primary key,
    reaction integer not null,
    is_matched boolean not null,
    is_there boolean not null,
    since bigint,
    active_at bigint not null,
    key text collate "C" not null,
    seen text,
    job text collate "C",
    told text
);

create index document_reaction on {schema}.document (reaction, serial);

-- Marks a table as one of which a change may have been missed. A mark that is there already serves, if nobody
-- can take it down before this transaction ends: else the rows might be looked at before they are changed.
create function {schema}.raise_alarm(origin integer, why text) returns void
language plpgsql
as $body$
begin
    begin
        perform 1 from {schema}.alarm where alarm.source = origin limit 1 for share skip locked;
        if found then
            return;
        end if;
    exception when others then
        null; -- in a transaction that sees the past: a mark more does no harm
    end;
    insert into {schema}.alarm (source, reason) values (origin, why);
exception when others then
    null; -- not breaking the write comes before not missing a change
end
$body$;

revoke all on function {schema}.raise_alarm(integer, text) from public;

-- Appends the keys of the rows that a statement touched. Whatever goes wrong in here must not reach the
-- statement: then the table is marked, to be looked at as a whole. So it is when nobody has planned for so long
-- that the keys would fill the disk. Its settings make the text of a key the same whoever writes.
create function {schema}.capture() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO, YMD'
set timezone = 'UTC'
set intervalstyle = 'postgres'
set bytea_output = 'hex'
set extra_float_digits = '1'
as $body$
declare
    origin constant integer := tg_argv[0];
    log constant text := '{literal}.change';
    spelled text;
    has_moved boolean := false;
begin
    if tg_op = 'TRUNCATE' then
        raise exception 'the table was emptied';
    end if;
    if pg_relation_size(log::regclass) > coalesce(current_setting('duly.change_log_limit', true), '268435456')::int8 then
        raise exception 'too many changes wait to be planned';
    end if;
    select string_agg(format('r.%I::text', name), ', ' order by place) into spelled
    from unnest(tg_argv) with ordinality as given (name, place) where place > 1;
    if tg_nargs > 2 then
        spelled := 'jsonb_build_array(' || spelled || ')::text';
    end if;
    if tg_op <> 'DELETE' then
        execute format('insert into %s (source, key) select $1, %s from duly_new as r', log, spelled)
            using origin;
    end if;
    if tg_op = 'UPDATE' then
        execute format('select (select sum(hashtext(%1$s)) from duly_old as r)
            is distinct from (select sum(hashtext(%1$s)) from duly_new as r)', spelled) into has_moved;
    end if;
    if has_moved then
        execute format('insert into %1$s (source, key) select $1, key from (
            select %2$s from duly_old as r except select %2$s from duly_new as r) as gone (key)', log, spelled)
            using origin;
    elsif tg_op = 'DELETE' then
        execute format('insert into %s (source, key) select $1, %s from duly_old as r', log, spelled)
            using origin;
    end if;
    return null;
exception when others then
    perform {schema}.raise_alarm(origin, sqlerrm);
    return null;
end
$body$;

revoke all on function {schema}.capture() from public;

-- What the database has against a condition, as one about a row of the table alone; null if nothing. Asked by
-- making a partial index on an empty copy of the same name, which is undone.
create function {schema}.complaint(relation text, name text, condition text) returns text
language plpgsql
as $body$
begin
    begin
        execute format('create temp table %I (like %s)', name, relation);
    exception when insufficient_privilege then
        return null;
    end;
    execute format('create index on pg_temp.%I ((1)) where %s', name, condition);
    raise exception sqlstate 'DU001';
exception
    when sqlstate 'DU001' then
        return null;
    when others then
        return sqlerrm;
end
$body$;

-- Hold a table against writers, for what changes its triggers, if that can be had within a blink.
create function {schema}.seize(relation text) returns boolean
language plpgsql
as $body$
begin
    perform set_config('lock_timeout', '50ms', true);
    execute 'lock table ' || relation || ' in share row exclusive mode';
    return true;
exception when lock_not_available then
    return false;
end
$body$;

-- Empty the log of changes with all the room it takes, if it can be had within a blink; the tables that had
-- changes, or null.
create function {schema}.empty_log() returns integer[]
language plpgsql
as $body$
declare
    sources integer[];
begin
    perform set_config('lock_timeout', '50ms', true);
    lock table {schema}.change in access exclusive mode;
    select coalesce(array_agg(distinct source), array[]::integer[]) into sources from {schema}.change;
    truncate {schema}.change;
    return sources;
exception when lock_not_available then
    return null;
end
$body$;

-- What a statement about the user's table fails with; null if it does not.
create function {schema}.trouble(statement text) returns text
language plpgsql
as $body$
begin
    execute statement;
    return null;
exception
    when lock_not_available or deadlock_detected or serialization_failure then
        return null; -- somebody else is at it: that goes by
    when others then
        return sqlerrm;
end
$body$;

-- Whether a text can be a value of a type: keys that were written down before a column became another can not.
create function {schema}.can_be(value text, kind text) returns boolean
language plpgsql
as $body$
begin
    execute format('select %L::%s', value, kind);
    return true;
exception when others then
    return false;
end
$body$;
