-- outbox: requests kept in the user's database until a store has taken them.

-- name: append
insert into duly_slip (offered_at, serial, job, request) values (:offered, :serial, :job, :request)

-- name: waits
select 1 from duly_slip where (leased_until <= :boot or boot_id <> :boot_id) and rests_until <= :now limit 1

-- name: counter
select outbox, last from duly_counter

-- name: free
-- The oldest that nobody has, none of a serial that somebody has.
select id from duly_slip
where (leased_until <= :boot or boot_id <> :boot_id) and rests_until <= :now
    and not exists (
        select 1 from duly_slip as held
        where held.serial = duly_slip.serial and held.leased_until > :boot and held.boot_id = :boot_id)
order by id
limit :limit

-- name: lend
update duly_slip
set leased_until = :until, boot_id = :boot_id, number = case when reason is null then :number else number end
where id = :id
returning id, number, job, offered_at, typeof(reason) <> 'null', request

-- name: count_on
update duly_counter set last = :last

-- name: clear
delete from duly_slip where id = :id and number = :number returning id

-- name: release
update duly_slip set leased_until = 0 where id = :id and number = :number returning id

-- name: set_aside
update duly_slip set leased_until = 0, rests_until = :until, reason = :reason
where id = :id and number = :number
returning id

-- name: backlog
select count(*), min(offered_at), count(reason), max(reason) from duly_slip

-- name: find
select offered_at, request from duly_slip where job = :job

-- name: withdraw
delete from duly_slip where job = :job and number is null returning id
