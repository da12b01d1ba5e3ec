-- exchange: end what is simply done and lend what is ready, in one statement, or change nothing.
-- SQLite performs several as one in a trigger only. This one and its view are temporary: they belong to a connection,
-- not to the file.

-- name: words
-- What the program is told. Nothing is stored there.
create temp view if not exists duly_words as
select null as epoch, null as shown, null as started_at, null as ends, null as ended, null as now, null as is_free,
    null as generations, null as nonce, null as worker

-- name: program
-- In braces are the statements of other files that would be said one by one, with words in the place of their
-- parameters. Where not every run ended, the whole statement is undone.
create temp trigger if not exists duly_spoken instead of insert on duly_words
begin
    {settle[finish_done]};
    select raise(abort, 'an end needs a decision') where changes() <> :ends;
    {claim[lend]};
end

-- name: say
-- Once for each of [[epoch, nonce, started_at, how many, [generation, ...]], ...]; with the last of them jobs are lent.
insert into duly_words (epoch, shown, started_at, ends, ended, now, is_free, generations, nonce, worker)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, :now, :is_free,
    iif(key = :last, :generations, '[]'), :nonce, :worker
from json_each(:loans)
