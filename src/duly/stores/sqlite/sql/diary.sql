-- diary: short texts one after the other, each kept for a while.

-- name: rewrite
update duly_diary set text = :text where number = :number and kind = :kind returning number

-- name: add
insert into duly_diary (number, kind, at, until, text) values (:number, :kind, :at, :until, :text)

-- name: list
select number, at, text from duly_diary indexed by duly_diary_kind
where kind = :kind and number < :before and at >= :since
order by number desc limit :limit

-- name: forget
delete from duly_diary where until <= :now
