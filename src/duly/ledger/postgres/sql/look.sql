-- look: one receipt as it stands, with what is left of the lease of its claim. Waits for nobody.

-- name: look
select r.id, r.name, r.payload, r.state, r.epoch, r.mark, r.created_at, r.completed_at,
    coalesce(d.hand_overs, 0), d.handed_over_at, d.next_at,
    greatest(case when d.mark = r.mark then d.until - {clock} end, 0)
from {schema}.receipt r left join {schema}.delivery d on d.id = r.id
where r.id = %(id)s
