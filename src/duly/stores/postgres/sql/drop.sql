-- drop: what goes with jobs that have ended. Whoever drops them chooses them and locks their ends, as `old`.

-- name: with_all_they_left
-- The second half of a statement that begins `with old as (…)`: one statement, as one journey drops thousands.
, ends as (
    delete from {schema}.ended using old where ended.generation = old.generation
), lines as (
    delete from {schema}.history using old where history.entered = old.entered
), remarks as (
    delete from {schema}.remark using old where remark.generation = old.generation
), expiring as (
    delete from {schema}.expiry using old
    where expiry.lane = old.lane and expiry.expires_at = old.expires_at and expiry.generation = old.generation
), jobs as (
    delete from {schema}.job using old where job.generation = old.generation
)
select generation, id from old
