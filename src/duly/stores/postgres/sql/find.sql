-- find, census, explain: reading, never changing.

-- name: history
select entered, at, event, epoch, generation, attempt, worker, started_at, note
from {schema}.history
where entered = any (%(jobs)s::int8[])
order by number

-- name: census
select lane, 'waiting', count(*)
from (select lane from {schema}.ready union all select lane from {schema}.parked) as waiting
group by lane
union all
select lane, 'running', count(*) from {schema}.running group by lane

-- name: census of finished
select lane, state, count(*) from {schema}.ended group by lane, state

-- name: some finished
select count(*) from (select 1 from {schema}.ended limit %(most)s) as seen

-- name: oldest
select lane.number, first.ready_at
from unnest(%(lanes)s::int4[]) as lane (number)
cross join lateral (
    select ready_at from {schema}.ready
    where ready.lane = lane.number and ready_at <= %(now)s order by ready_at limit 1) as first

-- name: tallies
select name, sum(amount)::int8 from {schema}.tally group by name

-- name: switch
select until, reason from {schema}.switch
where scope = %(scope)s and name = %(name)s and (until is null or until > %(now)s)

-- name: alive
select name, tasks from {schema}.worker where lease_until > %(boot)s and not has_left order by number
