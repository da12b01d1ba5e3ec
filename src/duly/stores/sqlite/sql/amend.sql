-- amend: an operator's order over a selection, job by job, newest first.

-- name: rivals
-- Other jobs of one key, oldest request first.
select id, generation, state from duly_job indexed by duly_job_key
where key = :key and task = :task and generation <> :generation
order by entered
