/* The tick: a schedule is a job; settling it puts the tick's job and moves last_tick in one transaction.
 *
 * Two workers tick one schedule and may die at any step; leases run out. After the last instant every tick
 * was put exactly once.
 *
 * Known to be bad:
 *   INSERT_THEN_ADVANCE   two transactions, insert first: a death in between doubles a tick
 *   ADVANCE_THEN_INSERT   two transactions, advance first: a death in between loses a tick
 *   FROM_NOW              the next instant is computed from the clock, not from the last tick
 *   NO_FENCE              the settle does not compare the epoch
 */

#define LAST 3
#define DEATHS 2
#define LAPSES 2            /* leases that run out on the living; on the dead they always do */

byte now = 0;                /* instants passed */
byte last_tick = 0;
byte put[LAST + 1];
byte epoch = 0;
bool lent = false;
bool lease = false;
byte deaths = 0;
byte lapses = 0;
bool orphaned = false;       /* whoever holds the schedule is dead */

#ifdef NO_FENCE
#define FENCE(e) true
#else
#define FENCE(e) (lent && epoch == e)
#endif

#ifdef FROM_NOW
#define NEXT (now)
#else
#define NEXT (last_tick + 1)
#endif

#define MAY_DIE \
    if \
    :: deaths < DEATHS -> atomic { deaths++; orphaned = orphaned || e == epoch }; goto idle \
    :: skip \
    fi

active [2] proctype Worker() {
    byte e = 0;
    byte tick = 0;
idle:
    do
    :: atomic {
           last_tick < now && (!lent || !lease) ->
           epoch++; e = epoch; lent = true; lease = true; orphaned = false;
           tick = NEXT
       }
       MAY_DIE;
#ifdef INSERT_THEN_ADVANCE
       atomic { if :: FENCE(e) -> put[tick]++ :: else -> goto idle fi }
       MAY_DIE;
       atomic { if :: FENCE(e) -> last_tick = tick; lent = false; lease = false :: else fi }
#else
#ifdef ADVANCE_THEN_INSERT
       atomic { if :: FENCE(e) -> last_tick = tick; lent = false; lease = false :: else -> goto idle fi }
       MAY_DIE;
       put[tick]++
#else
       atomic {
           if
           :: FENCE(e) -> put[tick]++; last_tick = tick; lent = false; lease = false
           :: else
           fi
       }
#endif
#endif
    :: last_tick == LAST -> break
    od
}

active proctype Time() {
    do
    :: now < LAST -> now++
    :: atomic { lent && lease && orphaned -> lease = false }
    :: atomic { lent && lease && lapses < LAPSES -> lapses++; lease = false }
    :: last_tick == LAST -> break
    od
}

active proctype Quiet() {
    byte i = 1;
    timeout ->
    do
    :: i <= LAST -> assert(put[i] == 1); i++
    :: else -> break
    od
}
