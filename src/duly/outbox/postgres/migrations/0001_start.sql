-- start: the tables of an outbox.

-- Requests committed with a transaction of the user, waiting to be carried to the store.
-- The serial is a digest of what must not overlap. A slip with a reason was set aside.
create table {schema}.slip (
    id bigint generated always as identity primary key,
    offered_at bigint not null,
    leased_until bigint not null default 0,
    rests_until bigint not null default 0,
    number bigint,
    serial uuid,
    job text collate "C" not null,
    reason text,
    request text not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off
);

create index slip_job on {schema}.slip (job);
create index slip_serial on {schema}.slip (serial, leased_until) where serial is not null;

-- One row, which whoever lends slips holds meanwhile: the outbox's own name, and the last number given out.
create table {schema}.counter (
    only_row boolean primary key default true check (only_row),
    outbox text not null,
    last bigint not null
);

insert into {schema}.counter (outbox, last) values (gen_random_uuid()::text, 0);
