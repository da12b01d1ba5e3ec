-- failures: errors by their names, looking at no more than the latest ones.

-- name: latest
select fingerprint, max(failed_at) as seen
from (
    select fingerprint, failed_at from duly_job indexed by duly_job_failure
    where failed_at is not null
    order by failed_at desc limit :latest)
group by fingerprint
order by seen desc, fingerprint
limit :limit

-- name: counted
select count(*) from (
    select 1 from duly_job indexed by duly_job_fingerprint where fingerprint = :fingerprint limit :counted)

-- name: oldest
select failed_at from duly_job indexed by duly_job_fingerprint
where fingerprint = :fingerprint
order by generation limit 1

-- name: tasks
select distinct task from (
    select task from duly_job indexed by duly_job_fingerprint
    where fingerprint = :fingerprint
    order by generation desc limit :newest)
order by task
