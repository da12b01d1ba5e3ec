-- claim: at most one valid claim per receipt. It holds no lock once this has committed, and waits for nobody:
-- a row that somebody else is claiming or completing this very moment is his.

-- name: make
insert into {schema}.receipt (id, name, payload, state, epoch, created_at)
values (%(id)s, %(name)s, null, 'pending', 0, {clock})
on conflict (id) do nothing

-- name: take
-- The epoch was seen together with a lease that is over: it differs if anybody claimed since.
update {schema}.receipt set state = 'pending', epoch = epoch + 1, mark = %(mark)s
where id = (
    select id from {schema}.receipt
    where id = %(id)s and epoch = %(epoch)s and state in ('pending', 'exhausted')
    for update skip locked)
returning epoch, payload is not null

-- name: lease
insert into {schema}.delivery (id, mark, until, next_at)
values (%(id)s, %(mark)s, {clock} + %(lease)s, case when %(is_issued)s then {clock} + %(lease)s end)
on conflict (id) do update set mark = excluded.mark, until = excluded.until, next_at = excluded.next_at
