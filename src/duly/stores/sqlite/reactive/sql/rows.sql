-- rows: the user's own table. What stands in braces is filled in with quoted names of its columns, and with the
-- condition that the task's author wrote; values are always bound.

-- name: table
select name, sql from main.sqlite_master where type = 'table' and lower(name) = lower(:name)

-- name: columns
select name, type, pk from pragma_table_xinfo(:name, 'main') where hidden <> 1 order by cid

-- name: unique
select list.name, info.name
from pragma_index_list(:name, 'main') as list join pragma_index_info(list.name, 'main') as info
where list."unique" = 1 and list.partial = 0 and info.name is not null

-- name: installed
select name from main.sqlite_master where type = 'trigger' and sql in ({texts})

-- Nothing is asked before a change is kept: every changed row would pay, and the cheapest question (was a
-- certain number given out?) made an UPDATE a fifth dearer.

-- name: capture_insert
CREATE TRIGGER duly_capture_{source}_insert after insert on {table} begin insert into duly_change (source, {parts}) values ({source}, {new}); end

-- name: capture_update
CREATE TRIGGER duly_capture_{source}_update after update on {table} begin insert into duly_change (source, {parts}) values ({source}, {new}); end

-- name: capture_rekey
CREATE TRIGGER duly_capture_{source}_rekey after update of {key_names}, rowid, oid, _rowid_ on {table} when ({old}) is not ({new}) begin insert into duly_change (source, {parts}) values ({source}, {old}); end

-- name: capture_delete
CREATE TRIGGER duly_capture_{source}_delete after delete on {table} begin insert into duly_change (source, {parts}) values ({source}, {old}); end

-- name: release
drop trigger if exists duly_capture_{source}_{event}

-- name: sight
-- Every wanted row, or nothing in its place: its key, whether to be quiet, whether it is there, whether it
-- matches, and its watched columns.
with duly_wanted as (
    select {named_parts}, min(coalesce(is_quiet, 0)) as duly_quiet
    from duly_change
    where number <= :our_last and source = :our_source and (reaction is null or reaction = :our_reaction)
        and {has_parts}
    group by {parts}
)
select {wanted_parts}, duly_quiet, {first} is not null, ({where}
) is true, {watch}
from duly_wanted left join main.{table} on {join}

-- name: scan_rows
insert into duly_change (source, reaction, is_quiet, {parts})
select :our_source, :our_reaction, :our_quiet, {key}
from main.{table}
where ({where}
) and {has_key} and {beyond}
order by {key}
limit :our_limit
returning 1

-- name: scan_documents
-- Documents of a stretch that are known to match, and whose row does not, or is not there.
insert into duly_change (source, reaction, is_quiet, part1, part2, part3, part4)
select :our_source, :our_reaction, 0, part1, part2, part3, part4
from duly_document
where duly_document.reaction = :our_reaction and duly_document.is_matched = 1
    and {beyond} and duly_document.key <= :our_last
    and not exists (select 1 from main.{table} where {document_join} and ({where}
))
returning 1

-- name: look
-- A batch of matching rows in the order of their keys, to tell what a scan would do.
select {key}, {watch}
from main.{table}
where ({where}
) and {has_key} and {beyond}
order by {key}
limit :our_limit

-- name: read
select ({where}
) is true, {watch}, {columns} from main.{table} where {is_key}

-- name: explain
explain select 1 from main.{table} where ({where}
)

-- name: probe_table
create temp table {table} as select * from main.{table} where 0

-- name: probe_where
-- Between words, so that brackets must match.
create index temp.duly_probe on {table} ({first_key}) where case when {where}
then 1 end

-- name: drop_probe
drop table if exists temp.{table}

-- name: choose
select {document_parts}, duly_document.key, duly_document.job
from duly_document left join duly_job as duly_found on duly_found.id = duly_document.job
where duly_document.reaction = :our_reaction
    and (:our_key is null or duly_document.key = :our_key)
    and (:our_states is null or duly_found.state in (select value from json_each(:our_states)))
    and (:our_error is null or instr(duly_found.error_folded, :our_error) > 0)
    and (:our_anywhere or exists (select 1 from main.{table} where {document_join} and ({chosen}
)))

-- name: revisit
update duly_document set seen = null where reaction = :our_reaction and key = :key
