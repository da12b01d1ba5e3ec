-- deliver: what relays bring from an outbox, each request once, and per serial never an older after a newer.

-- name: known
select 1 from duly_delivered where id = :id

-- name: remember
insert into duly_delivered (id, until) values (:id, :until)

-- name: last
select number from duly_number where outbox = :outbox and serial = :serial

-- name: number
insert into duly_number (outbox, serial, number, until) values (:outbox, :serial, :number, :until)
on conflict (outbox, serial) do update set number = excluded.number, until = excluded.until

-- name: forget
delete from duly_delivered where until <= :now

-- name: forget_numbers
delete from duly_number where until <= :now
