-- migrate: each step once, however many processes start together. The write lock is held meanwhile.

-- name: is_there
select 1 from sqlite_master where type = 'table' and name = 'duly_schema'

-- name: create
create table if not exists duly_schema (
    version integer primary key,
    name text not null,
    oldest_code integer not null,
    owns_file integer not null default 0,
    migrated_at integer not null
)

-- name: read
select version, oldest_code from duly_schema order by version

-- name: append
insert into duly_schema (version, name, oldest_code, migrated_at) values (:version, :name, :oldest_code, :now)
