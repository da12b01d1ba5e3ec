-- reaction: which tasks follow which tables, by which definition.

-- name: alone
-- Whoever brings or tends a definition is the only one to do so; a vacuum of its table is in nobody's way.
select pg_advisory_xact_lock(hashtextextended('duly definition', '{literal}.definition'::regclass::oid::int8))

-- name: in_force
select number, definition, mark, version, heard_at, condition, source, scan
from {schema}.reaction where task = %(task)s

-- name: bring
insert into {schema}.definition (task, mark) values (%(task)s, %(mark)s) on conflict do nothing returning 1

-- name: hear
update {schema}.reaction set heard_at = %(now)s where task = %(task)s

-- name: create
insert into {schema}.reaction (task, definition, mark, version, heard_at, condition, scan)
values (%(task)s, %(definition)s, %(mark)s, %(version)s, %(now)s, 'new', %(scan)s)

-- name: replace
update {schema}.reaction
set definition = %(definition)s, mark = %(mark)s, version = %(version)s, heard_at = %(now)s, condition = 'new',
    note = '', scan = coalesce(%(scan)s, scan)
where task = %(task)s

-- name: park
update {schema}.reaction set condition = 'parked', note = %(note)s where number = %(number)s

-- name: activate
update {schema}.reaction set condition = 'active', note = '', source = %(source)s where number = %(number)s

-- name: look_again
update {schema}.reaction set scan = %(scan)s, scanned = 0 where number = %(number)s

-- name: all
select number, definition, condition, note, scan is not null, scanned, reconciled_at,
    (select count(*) from {schema}.document where document.reaction = reaction.number and is_matched)
from {schema}.reaction order by task

-- name: definitions
select number, definition from {schema}.reaction order by number

-- name: of_sources
select source, number, definition from {schema}.reaction
where source = any (%(sources)s::int4[]) and condition = 'active' order by number

-- name: scans
select number, source, definition, scan from {schema}.reaction
where scan is not null and condition = 'active' order by number limit 1
for update skip locked

-- name: advance
update {schema}.reaction set scan = %(scan)s, scanned = scanned + %(scanned)s where number = %(number)s

-- name: end_scan
update {schema}.reaction set scan = null, reconciled_at = %(now)s where number = %(number)s

-- name: scan_source
update {schema}.reaction set scan = %(scan)s, scanned = 0 where source = %(source)s and condition = 'active'

-- name: clear_seen
update {schema}.document set seen = null where reaction = %(number)s

-- name: forget_keys
-- What is known of rows by other columns than those that name them now.
delete from {schema}.document
where reaction = %(number)s and exists (
    select 1 from {schema}.source as former join {schema}.source as present on present.key <> former.key
    where former.number = %(former)s and present.number = %(source)s)

-- name: abandoned
select number from {schema}.reaction where heard_at < %(before)s and condition <> 'parked'

-- name: source
select number, installed_at from {schema}.source where name = %(name)s and key = %(key)s

-- name: add_source
insert into {schema}.source (name, key) values (%(name)s, %(key)s)
on conflict (name, key) do update set name = excluded.name
returning number

-- name: installed
update {schema}.source set installed_at = %(now)s where number = %(number)s

-- name: uninstalled
update {schema}.source set installed_at = null where number = %(number)s

-- name: idle_sources
select number from {schema}.source
where installed_at is not null
    and not exists (
        select 1 from {schema}.reaction where reaction.source = source.number and heard_at >= %(before)s)

-- name: forget
delete from {schema}.document
where serial in (
    select serial from {schema}.document
    where reaction = %(reaction)s and active_at < %(before)s
        and (not is_there or (%(unmatched_too)s and not is_matched))
        and not exists (
            select 1 from {schema}.standing where standing.serial = document.serial)
    limit 10000
    for update skip locked)
returning 1
