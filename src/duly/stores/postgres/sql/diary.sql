-- diary: short texts one after the other, each kept for a while.

-- name: rewrite
update {schema}.diary set text = %(text)s where number = %(number)s and kind = %(kind)s returning number

-- name: add
insert into {schema}.diary (number, kind, at, until, text)
values (%(number)s, %(kind)s, %(at)s, %(until)s, %(text)s)

-- name: list
select number, at, text from {schema}.diary
where kind = %(kind)s and number < %(before)s and at >= %(since)s
order by number desc limit %(limit)s

-- name: forget
delete from {schema}.diary
where number in (select number from {schema}.diary where until <= %(now)s for update skip locked)
