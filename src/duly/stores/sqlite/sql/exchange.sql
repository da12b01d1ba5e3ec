-- exchange: end what is simply done and lend what is ready, in one statement, or change nothing.
-- SQLite performs several as one in a trigger only. This one and its view are temporary: they belong to a connection,
-- not to the file.

-- name: words
-- What the program is told. Nothing is stored there.
create temp view if not exists duly_words as
select null as loans, null as ends, null as now, null as is_free, null as generations, null as nonce,
    null as worker

-- name: program
-- In braces are the statements of other files that would be said one by one, with words in the place of their
-- parameters. The second follows the first at once: where not every end has its line, it aborts the whole statement.
create temp trigger if not exists duly_spoken instead of insert on duly_words
begin
    {settle[record_done]};
    select raise(abort, 'an end needs a decision') where changes() <> :ends;
    {settle[finish_done]};
    {claim[lend]};
end

-- name: say
insert into duly_words (loans, ends, now, is_free, generations, nonce, worker)
values (:loans, :ends, :now, :is_free, :generations, :nonce, :worker)
