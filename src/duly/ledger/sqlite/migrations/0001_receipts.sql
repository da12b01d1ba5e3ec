-- receipts: what was issued, who claims it, and when it may be handed over again.
--
-- Times are microseconds: since 1970 in UTC, `until` since the machine's start named by `boot_id`.

-- Written by issue, claim, release, complete and exhaust, and by nothing else: whatever renews a lease or
-- notes a hand-over must not touch the row that a body's transaction will complete.
-- `payload` is null when nobody issued the receipt: the first delivery made it.
-- `mark` is the claim in force, or the one that completed it; null when it was given back.
CREATE TABLE duly_receipt (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    payload TEXT,
    state TEXT NOT NULL CHECK (state IN ('pending', 'completed', 'exhausted')),
    epoch INTEGER NOT NULL,
    mark TEXT,
    created_at INTEGER NOT NULL,
    completed_at INTEGER
) STRICT;

-- prune: completed ones by age.
CREATE INDEX duly_receipt_completed ON duly_receipt (completed_at) WHERE state = 'completed';

-- prune: those that a delivery made and nobody completed.
CREATE INDEX duly_receipt_made ON duly_receipt (created_at) WHERE payload IS NULL AND state = 'pending';

-- find: what a person should look at.
CREATE INDEX duly_receipt_exhausted ON duly_receipt (id) WHERE state = 'exhausted';

-- `until` is the end of the lease of the claim with that mark. `next_at` is when the sweep may hand the
-- receipt over; null: never.
CREATE TABLE duly_delivery (
    id TEXT PRIMARY KEY,
    mark TEXT,
    until INTEGER,
    boot_id TEXT,
    next_at INTEGER,
    hand_overs INTEGER NOT NULL DEFAULT 0,
    handed_over_at INTEGER
) STRICT;

-- sweep: what is due.
CREATE INDEX duly_delivery_next ON duly_delivery (next_at, id) WHERE next_at IS NOT NULL;
