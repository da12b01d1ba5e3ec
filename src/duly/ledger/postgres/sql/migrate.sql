-- migrate: each step once, however many processes start together.

-- name: is_there
-- Read from the catalogs: the functions that look up a name may answer from before another's commit.
select 1 from pg_class join pg_namespace on pg_namespace.oid = pg_class.relnamespace
where nspname = %(namespace)s and relname = 'migration'

-- name: has_schema
select 1 from pg_namespace where nspname = %(namespace)s

-- name: alone
select pg_advisory_xact_lock(hashtextextended('duly ledger ' || %(namespace)s, 0))

-- name: create_schema
create schema {schema}

-- name: create
create table if not exists {schema}.migration (
    version integer primary key,
    name text not null,
    oldest_code integer not null,
    migrated_at bigint not null
)

-- name: read
select version, oldest_code from {schema}.migration order by version

-- name: append
insert into {schema}.migration values (%(version)s, %(name)s, %(oldest_code)s, {clock})
