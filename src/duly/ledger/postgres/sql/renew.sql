-- renew: the claim with this mark lasts :lease from now; no row when another claim took over.

-- name: renew
update {schema}.delivery
set until = {clock} + %(lease)s, next_at = case when next_at is not null then {clock} + %(lease)s end
where id = %(id)s and mark = %(mark)s
returning 1
