-- workers: who is there, in the order in which they came, and who leaves.

-- name: list
select id, name, host, pid, started_at, queues, tasks, slots, version, seen_at,
    boot_id = :boot_id and lease_until > :boot
from duly_worker order by number

-- name: alive
select name, tasks from duly_worker
where boot_id = :boot_id and lease_until > :boot
order by number

-- name: leases
select id, lease_until from duly_worker
where boot_id = :boot_id and id in (select value from json_each(:workers))

-- name: leave
delete from duly_worker where id = :worker
