-- search: free text among some jobs. Words beyond ASCII are compared outside, where every letter has its case.

-- name: fitting
select job.generation
from {schema}.job left join {schema}.ended on ended.generation = job.generation
where job.generation = any (%(generations)s::int8[])
    and (strpos(lower(job.arguments), %(text)s) > 0 or strpos(lower(job.key), %(text)s) > 0
        or strpos(lower(case when ended.generation is null then job.error else ended.error end), %(text)s) > 0)
order by job.generation desc

-- name: texts
select job.generation, job.key, job.arguments, case when ended.generation is null then job.error else ended.error end
from {schema}.job left join {schema}.ended on ended.generation = job.generation
where job.generation = any (%(generations)s::int8[])
order by job.generation desc
