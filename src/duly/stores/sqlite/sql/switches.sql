-- switches: lanes that stand still, in the order in which they were first held.

-- name: hold
-- The one that ends later stands; a comparison with a pause, which has no end, is never true.
insert into duly_switch (scope, name, until, reason) values (:scope, :name, :until, :reason)
on conflict (scope, name) do update set until = excluded.until, reason = excluded.reason
where excluded.until is null or excluded.until >= duly_switch.until

-- name: free
delete from duly_switch where scope = :scope and name = :name returning 1

-- name: list
select scope, name, until, reason from duly_switch
where until is null or until > :now
order by number
