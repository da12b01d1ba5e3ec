-- locks: at most one holder until its time is over. The token rises with every acquisition.

-- name: holder
select 1 from duly_lock where name = :name and boot_id = :boot_id and until > :boot

-- name: grip
insert into duly_lock (name, owner, token, until, boot_id) values (:name, :owner, :token, :until, :boot_id)
on conflict (name) do update
set owner = excluded.owner, token = excluded.token, until = excluded.until, boot_id = excluded.boot_id

-- name: keep
update duly_lock set until = :until, boot_id = :boot_id where name = :name and token = :token returning 1

-- name: let_go
delete from duly_lock where name = :name and token = :token returning 1
