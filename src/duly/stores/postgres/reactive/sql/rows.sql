-- rows: the user's own table. What stands in braces is filled in with quoted names of its columns and their
-- types, and with the condition that the task's author wrote; values are always bound.

-- name: table
select pg_class.oid::int8, nspname, relname, relkind
from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where pg_class.oid = to_regclass(%(name)s)

-- name: columns
select attname, format_type(atttypid, atttypmod), coalesce(bare.typname, pg_type.typname)
from pg_attribute
join pg_type on pg_type.oid = atttypid
left join pg_type as bare on bare.oid = pg_type.typbasetype and pg_type.typtype = 'd'
where attrelid = %(oid)s::int8::oid and attnum > 0 and not attisdropped
order by attnum

-- name: unique
select indexrelid::int8, indisprimary, attname
from pg_index
cross join unnest(indkey::int2[]) with ordinality as named (attnum, place)
join pg_attribute on attrelid = indrelid and pg_attribute.attnum = named.attnum
where indrelid = %(oid)s::int8::oid and indisunique and indisvalid and indpred is null and indexprs is null
    and place <= indnkeyatts
order by indexrelid, place

-- name: complaint
select {schema}.complaint(%(relation)s, %(name)s, %(condition)s)

-- name: mark
-- Two stores may follow one table: what tells their triggers apart is whose function they call.
select '{literal}.capture()'::regprocedure::oid::int8

-- name: installed
select count(*) from pg_trigger
where tgrelid = %(oid)s::int8::oid and tgname = any (%(names)s::name[]) and tgenabled = 'A'
    and tgfoid = '{literal}.capture()'::regprocedure and tgargs = %(given)s::bytea

-- name: owner
select pg_get_userbyid(relowner), current_user::text, pg_has_role(relowner, 'usage')
from pg_class where oid = %(oid)s::int8::oid

-- name: seize
select {schema}.seize(%(relation)s)

-- name: where_installed
select nspname, relname, tgname
from pg_trigger
join pg_class on pg_class.oid = tgrelid
join pg_namespace on pg_namespace.oid = relnamespace
where tgname = any (%(names)s::name[]) and tgfoid = '{literal}.capture()'::regprocedure

-- name: drop
drop trigger if exists {name} on {table}

-- name: capture_insert
create trigger {name} after insert on {table} referencing new table as duly_new
for each statement execute function {schema}.capture({given})

-- name: capture_update
create trigger {name} after update on {table} referencing old table as duly_old new table as duly_new
for each statement execute function {schema}.capture({given})

-- name: capture_delete
create trigger {name} after delete on {table} referencing old table as duly_old
for each statement execute function {schema}.capture({given})

-- name: capture_truncate
create trigger {name} after truncate on {table}
for each statement execute function {schema}.capture({given})

-- name: enable
alter table {table} enable always trigger {name}

-- name: settings
-- The text of a value is the same whoever asks.
select set_config('datestyle', 'ISO, YMD', true), set_config('timezone', 'UTC', true),
    set_config('intervalstyle', 'postgres', true), set_config('bytea_output', 'hex', true),
    set_config('extra_float_digits', '1', true)

-- name: get_settings
select current_setting('datestyle'), current_setting('timezone'), current_setting('intervalstyle'),
    current_setting('bytea_output'), current_setting('extra_float_digits')

-- name: restore_settings
-- It may be a transaction of the user's, who has settings of their own.
select set_config(name, value, true)
from unnest(array['datestyle', 'timezone', 'intervalstyle', 'bytea_output', 'extra_float_digits'],
    %(values)s::text[]) as given (name, value)

-- name: patience
select set_config('lock_timeout', '100ms', true)

-- name: sight
-- Every wanted row, or nothing in its place: its place in the batch, whether it is there, whether it matches,
-- and its watched columns.
select duly_wanted.duly_place, {first} is not null, ({where}
) is true, {watch}
from unnest({wanted}) with ordinality as duly_wanted ({parts}, duly_place)
left join {table} on {join}

-- name: trouble
select {schema}.trouble(%(statement)s)

-- name: forget_strange_changes
-- Keys that name no row, since a column of the key is of another type now.
delete from {schema}.change as duly_document where source = %(duly_source)s and exists (
    select 1 from unnest(array[{key_texts}], array[{key_kinds}]) as duly_given (value, kind)
    where not {schema}.can_be(duly_given.value, duly_given.kind))

-- name: forget_strange_documents
delete from {schema}.document as duly_document where reaction = %(duly_reaction)s and exists (
    select 1 from unnest(array[{key_texts}], array[{key_kinds}]) as duly_given (value, kind)
    where not {schema}.can_be(duly_given.value, duly_given.kind))

-- name: trial
-- Said inside `trouble`: the same look at the rows whose changes are to be planned.
select count(({where}
) is true), count(row({watch})::text)
from {table} join {schema}.change as duly_document on {document_join}
where duly_document.source = {source}

-- name: trial_scan
-- Said inside `trouble`: the same look at every row.
select count(({where}
) is true), count(row({watch})::text) from {table}

-- name: scan_rows
with duly_found as materialized (
    select {key_text} as duly_key
    from {table}
    where ({where}
) and {has_key} and {beyond}
    order by {key}
    limit %(duly_limit)s
)
select duly_key from duly_found

-- name: scan_documents
-- Documents of a stretch that are known to match, and whose row does not, or is not there.
select duly_document.key
from {schema}.document as duly_document
where duly_document.reaction = %(duly_reaction)s and duly_document.is_matched
    and (%(duly_after)s::uuid is null or duly_document.serial > %(duly_after)s::uuid)
    and duly_document.serial <= %(duly_last)s::uuid
    and not exists (select 1 from {table} where {document_join} and ({where}
))

-- name: look
-- A batch of matching rows in the order of their keys, to tell what a scan would do.
select {key_text}, {watch}
from {table}
where ({where}
) and {has_key} and {beyond}
order by {key}
limit %(duly_limit)s

-- name: read
-- Columns of other types make another statement, which a server that keeps plans must see as such.
select /* {types} */ ({where}
) is true, {watch}, {columns} from {table} where {is_key} {lock}

-- name: name_row
select {spelled}

-- name: hold
select 1 from {table} where {is_key} for share

-- name: choose
select duly_document.serial::text, duly_document.key, duly_document.job
from {schema}.document as duly_document
left join {schema}.job as duly_job on duly_job.id = duly_document.job
left join {schema}.ended as duly_ended on duly_ended.generation = duly_job.generation
left join {schema}.running as duly_running on duly_running.generation = duly_job.generation
where duly_document.reaction = %(duly_reaction)s
    and (%(duly_key)s::text is null or duly_document.key = %(duly_key)s::text)
    and (%(duly_states)s::text[] is null or coalesce(duly_ended.state,
        case when duly_running.generation is null then 'waiting' else 'running' end) = any (%(duly_states)s::text[]))
    and (%(duly_error)s::text is null
        or strpos(lower(coalesce(duly_ended.error, duly_job.error)), %(duly_error)s::text) > 0)
    and (%(duly_anywhere)s or exists (select 1 from {table} where {document_join} and ({chosen}
)))
