-- start: the tables of an outbox. `duly_` stands for the name of the outbox.

-- Requests committed with a transaction of the user, waiting to be carried to the store.
-- A lease is in boot time, and ends with the boot it names. A slip with a reason was set aside.
create table duly_slip (
    id integer primary key autoincrement,
    offered_at integer not null,
    leased_until integer not null default 0,
    boot_id text not null default '',
    rests_until integer not null default 0,
    number integer,
    serial text,
    job text not null,
    reason text,
    request text not null
) strict;

create index duly_slip_job on duly_slip (job);
create index duly_slip_serial on duly_slip (serial, leased_until) where serial is not null;

-- One row: the outbox's own name, and the last number given out.
create table duly_counter (
    only_row integer primary key check (only_row = 1),
    outbox text not null,
    last integer not null
) strict;

insert into duly_counter (only_row, outbox, last) values (1, lower(hex(randomblob(16))), 0);
