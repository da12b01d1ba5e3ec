-- put: create, keep, queue or supersede by key, and say which.
-- Requests whose serial nobody holds are stored in one statement; the others are placed one by one.
-- The caller holds the serials, so generations are drawn in the order in which requests take effect.
-- A user's transaction does not look for ids before it stores them (the lines with `not exists` are left out):
-- when it is SERIALIZABLE, the look would count as having read what the next user writes beside it, and one of
-- the two would be made to fail.

-- name: insert_alike
-- Many requests without a key that differ only in id and arguments.
with given as (
    select made.id, made.arguments, made.place
    from unnest(%(ids)s::text[], %(texts)s::text[]) with ordinality as made (id, arguments, place)
    where not exists (select 1 from {schema}.job where job.id = made.id offset 0)
    order by made.place
), numbered as (
    select nextval('{literal}.generation') as generation, given.id, given.arguments from given
), made as (
    insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, tick, lane,
        per_key, perpetual, overlap, delivery, id, context, arguments)
    select generation, generation, %(due)s, %(due)s, %(created_at)s, %(keep_done)s, %(keep_failed)s, %(tick)s,
        %(lane)s, %(per_key)s, %(perpetual)s, %(overlap)s::{schema}.overlap,
        %(delivery)s::{schema}.delivery, id, %(context)s, arguments
    from numbered
    on conflict (id) do nothing
    returning id, generation
), lined_up as (
    insert into {schema}.ready (lane, has_serial, ready_at, generation)
    select %(lane)s, false, %(due)s, generation from made
)
select id, generation from made

-- name: insert_swiftly
-- The same in a message of its own, by the server's clock, or as one of several in it. It fails on purpose while the
-- store is being moved, or when it serves newer code than this. A request whose id is known fails by itself, and with
-- it the message: to be asked for in another way costs less than to look for every id, or than `on conflict`, which
-- marks every row twice in the log.
-- Answers the first generation, and all of them in the order of the ids where another process drew some between
-- them: as many rows would cost both sides more than a microsecond each.
with moment as materialized (
    select coalesce(%(now)s::int8, {beginning}) as now
), numbered as materialized (
    select nextval('{literal}.generation') as generation, given.id, given.arguments, (select now from moment) as now,
        coalesce(%(due)s::int8, (select now from moment) + %(delay)s::int8) as due
    from (select unnest(%(ids)s::text[]) as id, unnest(%(texts)s::text[]) as arguments) as given
    where not exists (select 1 from {schema}.house)
        and not exists (select 1 from {schema}.migration where oldest_code > %(level)s::int4)
), made as (
    insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, tick, lane,
        per_key, perpetual, overlap, delivery, id, context, arguments)
    select generation, generation, due, due, now, %(keep_done)s::int8, %(keep_failed)s::int8, %(tick)s::int8,
        %(lane)s::int4, %(per_key)s::int4, %(perpetual)s::bool, %(overlap)s::{schema}.overlap,
        %(delivery)s::{schema}.delivery, id, %(context)s::text, arguments
    from numbered
), lined_up as (
    insert into {schema}.ready (lane, has_serial, ready_at, generation)
    select %(lane)s::int4, false, due, generation from numbered
)
select min(generation) + 0 / count(*), case when max(generation) - min(generation) >= count(*) then array_agg(generation) end
from numbered

-- name: insert_one
-- The same for a single request, which most are: without a list to walk through, it takes the server a fifth less.
with made as (
    insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, tick, lane,
        per_key, perpetual, overlap, delivery, id, context, arguments)
    select number.next, number.next, coalesce(%(due)s::int8, moment.now + %(delay)s::int8),
        coalesce(%(due)s::int8, moment.now + %(delay)s::int8), moment.now, %(keep_done)s::int8,
        %(keep_failed)s::int8, %(tick)s::int8, %(lane)s::int4, %(per_key)s::int4, %(perpetual)s::bool,
        %(overlap)s::{schema}.overlap, %(delivery)s::{schema}.delivery, %(id)s::text, %(context)s::text, %(text)s::text
    from (select coalesce(%(now)s::int8, {beginning}) as now) as moment,
        (select nextval('{literal}.generation') as next) as number
    where not exists (select 1 from {schema}.house)
        and not exists (select 1 from {schema}.migration where oldest_code > %(level)s::int4)
    returning generation, ready_at
)
insert into {schema}.ready (lane, has_serial, ready_at, generation)
select %(lane)s::int4, false, ready_at, generation from made
returning generation

-- name: insert_each
-- Requests of any shape: every column comes from the batch.
with given as (
    select *
    from unnest(%(due)s::int8[], %(created_at)s::int8[], %(keep_done)s::int8[], %(keep_failed)s::int8[],
        %(expires_at)s::int8[], %(expires_after)s::int8[], %(tick)s::int8[], %(lane)s::int4[], %(per_key)s::int4[], %(perpetual)s::bool[],
        %(serial)s::uuid[], %(overlap)s::{schema}.overlap[], %(delivery)s::{schema}.delivery[], %(id)s::text[], %(key)s::text[],
        %(chain)s::text[], %(context)s::text[], %(arguments)s::text[]) with ordinality
        as made (due, created_at, keep_done, keep_failed, expires_at, expires_after, tick, lane, per_key,
            perpetual, serial, overlap, delivery, id, key, chain, context, arguments, place)
    where not exists (select 1 from {schema}.job where job.id = made.id offset 0)
    order by made.place
), numbered as (
    select nextval('{literal}.generation') as generation, given.* from given
), made as (
    insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, expires_at,
        expires_after, tick, lane, per_key, perpetual, serial, overlap, delivery, id, key, chain, context, arguments)
    select generation, generation, due, due, created_at, keep_done, keep_failed, expires_at, expires_after, tick,
        lane, per_key, perpetual, serial, overlap, delivery, id, key, chain, context, arguments
    from numbered
    on conflict (id) do nothing
    returning id, generation, lane, ready_at, expires_at, serial
), lined_up as (
    insert into {schema}.ready (lane, has_serial, ready_at, generation)
    select lane, serial is not null, ready_at, generation from made
), standing as (
    insert into {schema}.standing (serial, generation)
    select serial, generation from made where serial is not null
), expiring as (
    insert into {schema}.expiry (lane, expires_at, generation)
    select lane, expires_at, generation from made where expires_at is not null
)
select id, generation from made

-- name: insert_ready
with made as (
    insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, expires_at,
        expires_after, tick, lane, per_key, perpetual, serial, overlap, delivery, id, key, chain, context, arguments)
    values (%(generation)s, %(generation)s, %(due)s, %(due)s, %(created_at)s, %(keep_done)s, %(keep_failed)s,
        %(expires_at)s, %(expires_after)s, %(tick)s, %(lane)s, %(per_key)s, %(perpetual)s, %(serial)s::uuid, %(overlap)s,
        %(delivery)s, %(id)s, %(key)s, %(chain)s, %(context)s, %(arguments)s)
    returning generation, lane, ready_at, expires_at, serial
), lined_up as (
    insert into {schema}.ready (lane, has_serial, ready_at, generation)
    select lane, serial is not null, ready_at, generation from made
), standing as (
    insert into {schema}.standing (serial, generation)
    select serial, generation from made where serial is not null
)
insert into {schema}.expiry (lane, expires_at, generation)
select lane, expires_at, generation from made where expires_at is not null

-- name: insert_parked
with made as (
    insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, expires_at,
        expires_after, tick, lane, per_key, perpetual, serial, overlap, delivery, id, key, chain, context, arguments)
    values (%(generation)s, %(generation)s, %(due)s, %(due)s, %(created_at)s, %(keep_done)s, %(keep_failed)s,
        %(expires_at)s, %(expires_after)s, %(tick)s, %(lane)s, %(per_key)s, %(perpetual)s, %(serial)s::uuid, %(overlap)s,
        %(delivery)s, %(id)s, %(key)s, %(chain)s, %(context)s, %(arguments)s)
    returning generation, lane, ready_at, expires_at, serial
), set_aside as (
    insert into {schema}.parked (lane, ready_at, generation) select lane, ready_at, generation from made
), standing as (
    insert into {schema}.standing (serial, generation)
    select serial, generation from made where serial is not null
)
insert into {schema}.expiry (lane, expires_at, generation)
select lane, expires_at, generation from made where expires_at is not null

-- name: known
select id, generation from {schema}.job where id = any (%(ids)s::text[])

-- name: taken
-- Which serials of the batch have something standing for them; one by one, or all that ever stood is read.
select wanted.serial::text
from unnest(%(serials)s::uuid[]) as wanted (serial)
where exists (select 1 from {schema}.standing where standing.serial = wanted.serial offset 0)
    or exists (select 1 from {schema}.marker where marker.serial = wanted.serial offset 0)

-- name: window
select until, id from {schema}.guard where serial = %(serial)s::uuid

-- name: has_marker
select 1 from {schema}.marker where serial = %(serial)s::uuid

-- name: open_window
insert into {schema}.guard (serial, until, id, name) values (%(serial)s::uuid, %(until)s, %(id)s, %(name)s)
on conflict (serial) do update set until = excluded.until, id = excluded.id
