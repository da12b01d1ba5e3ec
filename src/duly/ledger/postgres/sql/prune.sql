-- prune: what was completed :keep ago, a few at a time. What was issued and is not completed stays. What a
-- delivery made and nobody completed goes too: whoever delivers it again makes it again.

-- name: completed
delete from {schema}.receipt where id in (
    select id from {schema}.receipt
    where state = 'completed' and completed_at <= {clock} - %(keep)s
    order by completed_at limit %(limit)s
    for update skip locked)
returning id

-- name: made
-- By id and epoch: one that is claimed between the look and the lock has another epoch, and stays.
with old as materialized (
    select r.id, r.epoch from {schema}.receipt r left join {schema}.delivery d on d.id = r.id
    where r.payload is null and r.state = 'pending' and r.created_at <= {clock} - %(keep)s
        and coalesce(d.until, 0) <= {clock}
    order by r.created_at limit %(limit)s)
delete from {schema}.receipt where id in (
    select r.id from {schema}.receipt r join old on old.id = r.id and old.epoch = r.epoch
    for update of r skip locked)
returning id

-- name: deliveries
delete from {schema}.delivery where id in (select jsonb_array_elements_text(%(ids)s::jsonb))
