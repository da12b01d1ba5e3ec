-- failures: errors by their names, looking at no more than the latest ones. `offset 0` keeps a look into another
-- table at one row for each: a join would read all that ever ended.

-- name: latest
select fingerprint, max(failed_at) as seen
from (
    (select fingerprint, failed_at from {schema}.ended
    where failed_at is not null
    order by failed_at desc limit %(latest)s)
    union all
    (select job.fingerprint, job.failed_at
    from (
        select generation, fingerprint, failed_at from {schema}.job
        where failed_at is not null
        order by failed_at desc limit %(latest)s) as job
    where not exists (select 1 from {schema}.ended where ended.generation = job.generation offset 0))) as failure
group by fingerprint
order by seen desc, fingerprint
limit %(limit)s

-- name: groups
-- Of each: how many, the newest, the lanes of the newest, and when the oldest failed. What was tried again and has
-- ended is among the ended ones, or in no group any more.
select wanted.fingerprint, members.*
from unnest(%(fingerprints)s::text[]) with ordinality as wanted (fingerprint, place)
cross join lateral (
    with member as materialized (
        (select generation, lane from {schema}.ended
        where ended.fingerprint = wanted.fingerprint
        order by generation desc limit %(counted)s)
        union all
        (select job.generation, job.lane
        from (
            select generation, lane from {schema}.job
            where job.fingerprint = wanted.fingerprint
            order by generation desc limit %(counted)s) as job
        where not exists (select 1 from {schema}.ended where ended.generation = job.generation offset 0))
    )
    select least((select count(*) from member), %(counted)s),
        (select max(generation) from member),
        (select array_agg(distinct newest.lane)
            from (select lane from member order by generation desc limit %(newest)s) as newest),
        (select failed_at
            from (
                (select generation, failed_at from {schema}.ended
                where ended.fingerprint = wanted.fingerprint
                order by generation limit 1)
                union all
                (select job.generation, job.failed_at from {schema}.job
                where job.fingerprint = wanted.fingerprint
                    and not exists (select 1 from {schema}.ended where ended.generation = job.generation offset 0)
                order by job.generation limit 1)) as oldest
            order by generation limit 1)) as members
order by wanted.place
