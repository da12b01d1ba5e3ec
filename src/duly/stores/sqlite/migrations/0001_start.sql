-- start: everything the engine stores, in the first version of the schema.
--
-- Times are microseconds since 1970 in UTC. Ends of leases are microseconds of the boot
-- time of the machine, and mean nothing under another boot_id: a stepped wall clock ends no lease.
-- One wide table holds jobs of every state. Each partial index serves one question, so a job pays
-- only for the indexes of the state it is in, and finished jobs cost a claim nothing.
-- Conditions that are tested on every write compare one by one: SQLite turns a list of more than two
-- into a table of its own, which made each write of a job a third slower.

-- The rising number of the store. A job's own row tells the one it was given, so that a single request need not
-- change a second page; the counter remembers those that no row tells, or tells any more.
create table duly_counter (
    name text primary key,
    value integer not null
) strict, without rowid;

insert into duly_counter (name, value) values ('number', 0);

create table duly_tally (
    name text primary key,
    amount integer not null
) strict, without rowid;

-- The generation is the number of the row, so that "newest first" is the order of the table itself.
-- `entered` is the generation it was created with: it names the job in duly_history and never changes.
-- `rank` is the priority with its sign turned round: index and comparison go one way.
-- With an `event`, the row is also the last line of the job's history: an end at `finished_at` of the run that began
-- at `started_at`. Runs that are simply done tell it so: a line apart would be more pages to write.
-- `spare` are blanks that make room for what a loan and an end write into the row: it keeps its length, so SQLite
-- overwrites it where it is, instead of moving its neighbours and splitting their page.
create table duly_job (
    generation integer primary key,
    id text not null,
    entered integer not null,
    task text not null,
    queue text not null,
    rank integer not null,
    state text not null default 'waiting'
        check (
            state = 'waiting' or state = 'running' or state = 'done' or state = 'failed'
            or state = 'cancelled' or state = 'skipped'),
    is_parked integer not null default 0 check (is_parked in (0, 1)),
    ready_at integer not null,
    due integer not null,
    created_at integer not null,
    epoch integer not null default 0,
    nonce text not null default '',
    worker text not null default '',
    attempt integer not null default 0,
    crashes integer not null default 0,
    deferrals integer not null default 0,
    cycle integer not null default 0,
    is_suspect integer not null default 0,
    has_begun integer not null default 0,
    began_isolated integer not null default 0,
    key text,
    serial text,
    per_key integer not null,
    overlap text not null,
    delivery text not null,
    perpetual integer not null,
    keep_done integer not null,
    keep_failed integer not null,
    expires_at integer,
    expires_after integer,
    tick integer,
    first_failure integer,
    superseded_by text,
    wish text,
    finished_at integer,
    event text,
    started_at integer,
    forget_at integer,
    result_until integer,
    reason text not null default '',
    context text not null,
    arguments text not null,
    progress text,
    result text,
    error text,
    error_folded text,
    fingerprint text,
    failed_at integer,
    spare text not null default '                                                                                ',
    check ((finished_at is null) = (state in ('waiting', 'running')))
) strict;

create unique index duly_job_id on duly_job (id);

-- No number is given twice: the highest outlives its job, whoever deletes it.
create trigger duly_job_outlived before delete on duly_job
when old.generation = (select max(generation) from duly_job)
begin
    update duly_counter set value = old.generation where name = 'number' and value < old.generation;
end;

-- claim: what may be lent, lane by lane. Parked jobs are outside, so nobody walks over them. find, count and census
-- read it too, so what is the same in all entries stands in front of them: without it each would be looked up in the
-- table, and behind the others it would be in the way of their order.
create index duly_job_ready on duly_job (state, is_parked, queue, task, rank, ready_at)
    where state = 'waiting' and is_parked = 0;

-- find, count, census: those that wait behind others.
create index duly_job_parked on duly_job (state, is_parked, queue, task)
    where state = 'waiting' and is_parked = 1;

-- claim: what nobody wants any more, by lane, so that lanes this worker does not serve cost one seek.
create index duly_job_expiry on duly_job (queue, task, expires_at)
    where expires_at is not null and state = 'waiting';

-- claim: whose jobs are on loan, how many of each task, and which serials they hold.
create index duly_job_running on duly_job (worker, task, queue, serial, state)
    where state = 'running';

-- put, settle: what stands for a serial: what runs, what is parked behind it, what is not.
create index duly_job_serial on duly_job (serial, state, is_parked)
    where serial is not null and state in ('waiting', 'running');

-- find, count, census: finished jobs by lane, newest first within each.
create index duly_job_ended on duly_job (queue, task, state)
    where state not in ('waiting', 'running');

-- find by key, whatever became of the job.
create index duly_job_key on duly_job (key, task)
    where key is not null;

-- find by a part of the error text.
create index duly_job_error on duly_job (generation)
    where error is not null;

-- failures: what failed last, and the jobs of one error, newest first.
create index duly_job_failure on duly_job (failed_at, fingerprint)
    where failed_at is not null;

create index duly_job_fingerprint on duly_job (fingerprint)
    where fingerprint is not null;

-- prune: what to forget, results first.
create index duly_job_forget on duly_job (forget_at)
    where forget_at is not null;

create index duly_job_result on duly_job (result_until)
    where result_until is not null;

create table duly_history (
    number integer primary key,
    job integer not null,
    at integer not null,
    event text not null,
    epoch integer not null,
    generation integer not null,
    attempt integer not null,
    worker text not null,
    started_at integer,
    note text not null
) strict;

create index duly_history_job on duly_history (job);

create table duly_worker (
    number integer primary key,
    id text not null unique,
    name text not null,
    host text not null,
    pid integer not null,
    started_at integer not null,
    queues text not null,
    tasks text not null,
    slots integer not null,
    version text not null,
    lease_until integer not null,
    boot_id text not null,
    seen_at integer not null
) strict;

-- A duplicate guard in force for a serial, and the job whose request was accepted.
create table duly_window (
    serial text primary key,
    until integer not null,
    id text not null
) strict, without rowid;

create index duly_window_until on duly_window (until);

-- A perpetual that was stopped stays stopped: pruning never touches these.
create table duly_marker (
    serial text primary key,
    at integer not null
) strict, without rowid;

create table duly_switch (
    number integer primary key,
    scope text not null,
    name text not null,
    until integer,
    reason text not null,
    unique (scope, name)
) strict;

create table duly_lock (
    name text primary key,
    owner text not null,
    token integer not null,
    until integer not null,
    boot_id text not null
) strict, without rowid;

create table duly_record (
    kind text not null,
    name text not null,
    text text not null,
    primary key (kind, name)
) strict, without rowid;

-- What is written down one after the other, each entry for a while: orders of operators, pulses of workers.
create table duly_diary (
    number integer primary key,
    kind text not null,
    at integer not null,
    until integer not null,
    text text not null
) strict;

create index duly_diary_kind on duly_diary (kind);

create index duly_diary_until on duly_diary (until);

-- Starts of tasks with a rate limit, as far back as their window reaches.
create table duly_start (
    number integer primary key,
    task text not null,
    at integer not null
) strict;

create index duly_start_task on duly_start (task, at);

-- Keyed requests committed with a transaction of the caller, waiting for the engine to place them.
-- One that could not be read is set aside with the number of the format its reader knew, so that only
-- a reader of a newer format looks at it again.
create table duly_intake (
    number integer primary key,
    id text not null unique,
    key text,
    offered_at integer not null,
    set_aside integer not null default 0,
    request text not null
) strict;

create index duly_intake_unread on duly_intake (set_aside);

-- What relays brought from an outbox, remembered for longer than any of them can be late: each request, and
-- the number of the last one of each serial.
create table duly_delivered (
    id text primary key,
    until integer not null
) strict, without rowid;

create index duly_delivered_until on duly_delivered (until);

create table duly_number (
    outbox text not null,
    serial text not null,
    number integer not null,
    until integer not null,
    primary key (outbox, serial)
) strict, without rowid;

create index duly_number_until on duly_number (until);

-- The notice at the door while everything is being carried elsewhere, or is arriving: one row or none.
-- `cursor` is the generation up to which jobs have arrived.
create table duly_house (
    only_one integer primary key check (only_one = 1),
    stage text not null,
    move text not null,
    other text not null,
    cursor integer not null default 0
) strict;

-- Following tables of the user's in this file. Key columns of a row are kept as they are, of whatever type, in
-- part1 to part4; one that is not part of the key is null. Statements of the user touch nothing but duly_change.

-- A table that is followed, by the columns that name its rows. `installed_at` is null without triggers.
create table duly_source (
    number integer primary key,
    name text not null,
    key text not null,
    installed_at integer,
    unique (name, key)
) strict;

-- A task that follows one. `scan` says how far the look at every row has come; null without one.
create table duly_reaction (
    number integer primary key,
    task text not null unique,
    source integer,
    definition text not null,
    mark text not null,
    version integer not null,
    heard_at integer not null,
    condition text not null,
    note text not null default '',
    scan text,
    scanned integer not null default 0,
    reconciled_at integer
) strict;

create index duly_reaction_source on duly_reaction (source);

-- Every definition that a worker ever brought, so that an older one is known as such.
create table duly_definition (
    task text not null,
    mark text not null,
    primary key (task, mark)
) strict, without rowid;

-- Keys of changed rows, appended by triggers and consumed by planning. With a `reaction`, appended by a look
-- at every row on its behalf; a quiet one notes rows that nobody knew without running them.
create table duly_change (
    number integer primary key,
    source integer not null,
    part1 any,
    part2 any,
    part3 any,
    part4 any,
    reaction integer,
    is_quiet integer
) strict;

-- What is known of a row for one task: the fingerprint of the values last dealt with, and the job that did.
create table duly_document (
    reaction integer not null,
    key text not null,
    part1 any,
    part2 any,
    part3 any,
    part4 any,
    seen text,
    is_matched integer not null,
    is_there integer not null,
    job text,
    since integer,
    told text,
    active_at integer not null,
    primary key (reaction, key)
) strict, without rowid;
