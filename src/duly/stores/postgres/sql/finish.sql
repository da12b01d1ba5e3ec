-- finish: end one run that is simply done, as the last words of the transaction of its effects.
-- One row each, without the arrays of a batch: those cost the server a tenth of the whole transaction. Whatever
-- needs a decision fails here (a division by zero), and is settled with care.

-- name: end
-- Done, with nothing to keep and no serial, or nothing at all: when it was lost, or the store is being moved.
with gone as (
    delete from {schema}.running
    where generation = %(generation)s::int8 and epoch = %(epoch)s::int4 and seed = %(seed)s::int8
        and serial is null
    returning keep_done, lane, worker
), ended as (
    insert into {schema}.ended (generation, finished_at, forget_at, seed, started_at, lane, epoch, worker, state,
        event)
    select %(generation)s::int8, now, now + keep_done, %(seed)s::int8, %(started)s::int8, lane, %(epoch)s::int4,
        worker, 'done', 'done'
    from gone
    cross join (
        select coalesce(%(now)s::int8, (extract(epoch from clock_timestamp()) * 1000000)::int8) as now
        offset 0) as moment
)
select 1 / (
    exists (select from gone)
    and not exists (select from {schema}.house)
    and not exists (select from {schema}.migration where oldest_code > %(level)s::int4))::int4

-- name: confirm
-- Whoever speaks of a run locks its loan first, so what was said before we had it is to be seen now.
select 1 / (not exists (select from {schema}.notice where generation = %(generation)s::int8))::int4
