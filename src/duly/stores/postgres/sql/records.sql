-- records: small named texts of the engine, by kind.

-- name: write
insert into {schema}.record (kind, name, text) values (%(kind)s, %(name)s, %(text)s)
on conflict (kind, name) do update set text = excluded.text

-- name: erase
delete from {schema}.record where kind = %(kind)s and name = %(name)s

-- name: list
select name, text from {schema}.record where kind = %(kind)s
