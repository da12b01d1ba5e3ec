-- locks: at most one holder until its time is over. The token rises with every acquisition.

-- name: holder
select 1 from {schema}.lock where name = %(name)s and until > %(boot)s

-- name: grip
-- Whoever comes second finds the row of the first, even when both saw none. A token is drawn by whoever gets
-- the lock, and not before.
insert into {schema}.lock as held (name, owner, token, until)
values (%(name)s, %(owner)s, nextval('{literal}.generation'), %(until)s)
on conflict (name) do update
set owner = excluded.owner, token = excluded.token, until = excluded.until
where held.until <= %(boot)s
returning token

-- name: keep
update {schema}.lock set until = %(until)s where name = %(name)s and token = %(token)s returning 1

-- name: let_go
delete from {schema}.lock where name = %(name)s and token = %(token)s returning 1
