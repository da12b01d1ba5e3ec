-- switches: lanes that stand still, in the order in which they were first held.

-- name: hold
-- The one that ends later stands; a comparison with a pause, which has no end, is never true.
insert into {schema}.switch (scope, name, until, reason)
values (%(scope)s, %(name)s, %(until)s, %(reason)s)
on conflict (scope, name) do update set until = excluded.until, reason = excluded.reason
where excluded.until is null or excluded.until >= switch.until

-- name: free
delete from {schema}.switch where scope = %(scope)s and name = %(name)s returning 1

-- name: list
select scope, name, until, reason from {schema}.switch
where until is null or until > %(now)s
order by number
