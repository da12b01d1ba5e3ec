-- reaction: which tasks follow which tables, by which definition.

-- name: alone
-- Nothing to do: whoever writes is alone.
select 1

-- name: in_force
select number, definition, mark, version, heard_at, condition, source, scan from duly_reaction where task = :task

-- name: bring
insert into duly_definition (task, mark) values (:task, :mark) on conflict do nothing returning 1

-- name: hear
update duly_reaction set heard_at = :now where task = :task

-- name: create
insert into duly_reaction (task, definition, mark, version, heard_at, condition, scan)
values (:task, :definition, :mark, :version, :now, 'new', :scan)

-- name: replace
update duly_reaction
set definition = :definition, mark = :mark, version = :version, heard_at = :now, condition = 'new', note = '',
    scan = coalesce(:scan, scan)
where task = :task

-- name: park
update duly_reaction set condition = 'parked', note = :note where number = :number

-- name: activate
update duly_reaction set condition = 'active', note = '', source = :source where number = :number

-- name: look_again
-- A parked task that can work again must look at every row: changes were dropped meanwhile.
update duly_reaction set scan = :scan, scanned = 0 where number = :number

-- name: all
select number, definition, condition, note, scan is not null, scanned, reconciled_at,
    (select count(*) from duly_document where reaction = number and is_matched = 1)
from duly_reaction order by task

-- name: definitions
select number, definition from duly_reaction

-- name: of_source
select number, definition from duly_reaction where source = :source and condition = 'active' order by number

-- name: scans
select number, source, definition, scan from duly_reaction
where scan is not null and condition = 'active' order by number limit 1

-- name: advance
update duly_reaction set scan = :scan, scanned = scanned + :scanned where number = :number

-- name: end_scan
update duly_reaction set scan = null, reconciled_at = :now where number = :number

-- name: scan_source
update duly_reaction set scan = :scan, scanned = 0 where source = :source and condition = 'active'

-- name: clear_seen
update duly_document set seen = null where reaction = :number

-- name: forget_keys
-- What is known of rows by other columns than those that name them now.
delete from duly_document
where reaction = :number and exists (
    select 1 from duly_source as former join duly_source as present on present.key <> former.key
    where former.number = :former and present.number = :source)

-- name: abandoned
select number from duly_reaction where heard_at < :before and condition <> 'parked'

-- name: source
select number, installed_at from duly_source where name = :name and key = :key

-- name: add_source
insert into duly_source (name, key) values (:name, :key) returning number

-- name: installed
update duly_source set installed_at = :now where number = :number

-- name: uninstalled
update duly_source set installed_at = null where number = :number

-- name: idle_sources
select number from duly_source
where installed_at is not null
    and not exists (
        select 1 from duly_reaction
        where duly_reaction.source = duly_source.number and heard_at >= :before)

-- name: forget
delete from duly_document
where reaction = :reaction and active_at < :before and (is_there = 0 or (:unmatched_too and is_matched = 0))
    and not exists (
        select 1 from duly_job where duly_job.id = duly_document.job and duly_job.state in ('waiting', 'running'))
returning 1
