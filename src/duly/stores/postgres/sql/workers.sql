-- workers: who is there, in the order in which they came, and who leaves.

-- name: list
select id, name, host, pid, started_at, queues, tasks, slots, version, seen_at, lease_until > %(boot)s
from {schema}.worker where not has_left order by number

-- name: leave
update {schema}.worker set has_left = true, lease_until = 0, is_cleared = false where id = %(worker)s
