-- select: which jobs an operator or a page means, newest request first. Lanes that are null are all lanes.

-- name: newest
/* planned anew */
select generation from {schema}.job
where generation < %(before)s and generation >= %(since)s order by generation desc limit %(limit)s

-- name: by_id
select job.generation
from {schema}.job
left join {schema}.running on running.generation = job.generation
left join {schema}.ended on ended.generation = job.generation
where job.id = any (%(ids)s::text[]) and job.generation < %(before)s
    and (%(key)s::text is null or job.key = %(key)s)
    and (%(lanes)s::int4[] is null or job.lane = any (%(lanes)s::int4[]))
    and coalesce(ended.state, case when running.generation is null then 'waiting' else 'running' end)
        = any (%(states)s::text[])
    and (%(error)s::text is null
        or strpos(lower(case when ended.generation is null then job.error else ended.error end), %(error)s) > 0)
    and (%(fingerprint)s::text is null
        or case when ended.generation is null then job.fingerprint else ended.fingerprint end = %(fingerprint)s)
order by job.generation desc
limit %(limit)s

-- name: by_key
/* planned anew */
select job.generation
from {schema}.job
left join {schema}.running on running.generation = job.generation
left join {schema}.ended on ended.generation = job.generation
where hashtextextended(job.key, 0) = hashtextextended(%(key)s, 0) and job.key = %(key)s
    and job.generation < %(before)s
    and (%(lanes)s::int4[] is null or job.lane = any (%(lanes)s::int4[]))
    and coalesce(ended.state, case when running.generation is null then 'waiting' else 'running' end)
        = any (%(states)s::text[])
    and (%(error)s::text is null
        or strpos(lower(case when ended.generation is null then job.error else ended.error end), %(error)s) > 0)
    and (%(fingerprint)s::text is null
        or case when ended.generation is null then job.fingerprint else ended.fingerprint end = %(fingerprint)s)
order by job.generation desc
limit %(limit)s

-- name: by_fingerprint
/* planned anew */
select generation
from (
    (select ended.generation from {schema}.ended
    where ended.fingerprint = %(fingerprint)s and ended.generation < %(before)s and ended.generation >= %(since)s
        and (%(error)s::text is null or strpos(lower(ended.error), %(error)s) > 0)
        and ended.state = any (%(states)s::text[])
        and (%(lanes)s::int4[] is null or ended.lane = any (%(lanes)s::int4[]))
    order by ended.generation desc limit %(limit)s)
    union all
    (select job.generation
    from {schema}.job
    left join {schema}.running on running.generation = job.generation
    where job.fingerprint = %(fingerprint)s and job.generation < %(before)s and job.generation >= %(since)s
        and (%(error)s::text is null or strpos(lower(job.error), %(error)s) > 0)
        and not exists (select 1 from {schema}.ended where ended.generation = job.generation offset 0)
        and case when running.generation is null then 'waiting' else 'running' end = any (%(states)s::text[])
        and (%(lanes)s::int4[] is null or job.lane = any (%(lanes)s::int4[]))
    order by job.generation desc limit %(limit)s)) as found
order by generation desc
limit %(limit)s

-- name: by_error
/* planned anew */
select generation
from (
    (select ended.generation from {schema}.ended
    where ended.error is not null and strpos(lower(ended.error), %(error)s) > 0
        and ended.generation < %(before)s and ended.generation >= %(since)s
        and ended.state = any (%(states)s::text[])
        and (%(lanes)s::int4[] is null or ended.lane = any (%(lanes)s::int4[]))
    order by ended.generation desc limit %(limit)s)
    union all
    (select job.generation
    from {schema}.job
    left join {schema}.running on running.generation = job.generation
    where job.error is not null and strpos(lower(job.error), %(error)s) > 0
        and job.generation < %(before)s and job.generation >= %(since)s
        and not exists (select 1 from {schema}.ended where ended.generation = job.generation offset 0)
        and case when running.generation is null then 'waiting' else 'running' end = any (%(states)s::text[])
        and (%(lanes)s::int4[] is null or job.lane = any (%(lanes)s::int4[]))
    order by job.generation desc limit %(limit)s)) as found
order by generation desc
limit %(limit)s

-- name: standing
-- Each state by itself, though in the same words: an index by state and generation is in order for one state only.
-- A join with the states cannot say it shorter: the index of those that did not end well is partial, and serves only
-- where the state is a constant.
/* planned anew */
select generation
from (
    (select generation from {schema}.ready
        where %(is_waiting)s and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)
    union all
    (select generation from {schema}.parked
        where %(is_waiting)s and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)
    union all
    (select generation from {schema}.running
        where %(is_running)s and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)
    union all
    (select generation from {schema}.ended
        where %(is_done)s and state = 'done' and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)
    union all
    (select generation from {schema}.ended
        where %(is_failed)s and state = 'failed' and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)
    union all
    (select generation from {schema}.ended
        where %(is_cancelled)s and state = 'cancelled' and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)
    union all
    (select generation from {schema}.ended
        where %(is_skipped)s and state = 'skipped' and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[]))
            and generation < %(before)s and generation >= %(since)s
        order by generation desc limit %(limit)s)) as found
order by generation desc
limit %(limit)s

-- name: count
/* planned anew */
select
    (select count(*) from {schema}.ready
        where %(is_waiting)s and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[])))
    + (select count(*) from {schema}.parked
        where %(is_waiting)s and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[])))
    + (select count(*) from {schema}.running
        where %(is_running)s and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[])))
    + (select count(*) from {schema}.ended
        where %(is_ended)s and state = any (%(states)s::text[])
            and (%(lanes)s::int4[] is null or lane = any (%(lanes)s::int4[])))

-- name: reach
-- How far so many ended jobs reach: the generation of the last of them.
select generation from {schema}.ended
where generation < %(before)s
order by generation desc offset %(others)s limit 1

-- name: reach_of_state
select generation from {schema}.ended
where state = %(state)s and state <> 'done' and generation < %(before)s
order by generation desc offset %(others)s limit 1

-- name: reach_of_fingerprint
select generation from {schema}.ended
where fingerprint = %(fingerprint)s and generation < %(before)s
order by generation desc offset %(others)s limit 1

-- name: reach_of_errors
select generation from {schema}.ended
where error is not null and generation < %(before)s
order by generation desc offset %(others)s limit 1
