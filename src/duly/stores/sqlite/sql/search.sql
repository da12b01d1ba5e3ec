-- search: free text among some jobs. Words beyond ASCII are compared outside: SQLite knows no case of theirs.

-- name: fitting
select generation from duly_job
where generation in (select value from json_each(:generations))
    and (instr(lower(arguments), :text) > 0 or instr(lower(key), :text) > 0 or instr(error_folded, :text) > 0)
order by generation desc

-- name: texts
select generation, key, arguments, error from duly_job
where generation in (select value from json_each(:generations))
order by generation desc
