-- receipts: what was issued, who claims it, and when it may be handed over again.
--
-- Times are microseconds since 1970 in UTC, by the server's clock.

-- Written by issue, claim, release, complete and exhaust, and by nothing else: whatever renews a lease or
-- notes a hand-over must not touch the row that a body's transaction will complete, or that could not be
-- done in REPEATABLE READ.
-- `payload` is null when nobody issued the receipt: the first delivery made it.
-- `mark` is the claim in force, or the one that completed it; null when it was given back.
create table {schema}.receipt (
    id text collate "C" primary key,
    name text not null,
    payload text,
    state text not null check (state in ('pending', 'completed', 'exhausted')),
    epoch integer not null,
    mark text,
    created_at bigint not null,
    completed_at bigint
);

-- prune: completed ones by age.
create index receipt_completed on {schema}.receipt (completed_at) where state = 'completed';

-- prune: those that a delivery made and nobody completed.
create index receipt_made on {schema}.receipt (created_at) where payload is null and state = 'pending';

-- find: what a person should look at.
create index receipt_exhausted on {schema}.receipt (id) where state = 'exhausted';

-- `until` is the end of the lease of the claim with that mark. `next_at` is when the sweep may hand the
-- receipt over; null: never.
create table {schema}.delivery (
    id text collate "C" primary key,
    mark text,
    until bigint,
    next_at bigint,
    hand_overs integer not null default 0,
    handed_over_at bigint
);

-- sweep: what is due.
create index delivery_next on {schema}.delivery (next_at, id) where next_at is not null;
