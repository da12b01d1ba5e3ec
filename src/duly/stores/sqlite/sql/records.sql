-- records: small named texts of the engine, by kind.

-- name: write
insert into duly_record (kind, name, text) values (:kind, :name, :text)
on conflict (kind, name) do update set text = excluded.text

-- name: erase
delete from duly_record where kind = :kind and name = :name

-- name: list
select name, text from duly_record where kind = :kind
