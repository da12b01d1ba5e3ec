-- change: keys of changed rows, consumed in the order of their arrival.

-- name: last
select max(number), count(*) from (select number from duly_change order by number limit :limit)

-- name: is_any
select 1 where exists (select 1 from duly_change)
    or exists (select 1 from duly_reaction where scan is not null and condition = 'active')

-- name: flood
select (select min(number) from duly_change), (select max(number) from duly_change)

-- name: sources
select distinct source from duly_change where number <= :last

-- name: all_sources
select distinct source from duly_change

-- name: consume
delete from duly_change where number <= :last

-- name: later
-- Keys that users changed and nobody has consumed yet.
select part1, part2, part3, part4 from duly_change
where number > :last and source = :source and reaction is null

-- name: append
insert into duly_change (source, part1, part2, part3, part4, reaction, is_quiet)
values (:source, :part1, :part2, :part3, :part4, :reaction, 0)

-- name: newest
select part1, part2, part3, part4 from duly_change order by number desc limit 1

-- name: take_turn
-- Changes nothing, but nobody else writes until the transaction ends.
update duly_counter set value = value where name = 'number'
