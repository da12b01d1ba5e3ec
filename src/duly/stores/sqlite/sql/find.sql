-- find, census, explain: reading, never changing.

-- name: history
select job, at, event, epoch, generation, attempt, worker, started_at, note
from duly_history
where job in (select value from json_each(:jobs))
order by number

-- name: census
select task, queue, 'waiting', sum(size) from (
    select task, queue, count(*) as size from duly_job indexed by duly_job_ready
    where state = 'waiting' and is_parked = 0 group by queue, task
    union all
    select task, queue, count(*) from duly_job indexed by duly_job_parked
    where state = 'waiting' and is_parked = 1 group by queue, task)
group by queue, task
union all
select task, queue, 'running', count(*) from duly_job indexed by duly_job_running
where state = 'running' group by queue, task

-- name: census of finished
select task, queue, state, count(*) from duly_job indexed by duly_job_ended
where state not in ('waiting', 'running') group by queue, task, state

-- name: some finished
select count(*) from (
    select 1 from duly_job indexed by duly_job_ended where state not in ('waiting', 'running') limit :most)

-- name: tallies
select name, amount from duly_tally

-- name: switch
select until, reason from duly_switch
where scope = :scope and name = :name and (until is null or until > :now)
