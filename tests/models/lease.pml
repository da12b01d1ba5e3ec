/* Lease, epoch, settle: one job, three workers, any of which may freeze, die or be taken for dead.
 *
 * A worker that is slow simply takes no step for a while, so every interleaving is a freeze. A lease may
 * run out at any moment, because the store cannot tell a frozen worker from a dead one.
 *
 * Shows: at most one run settles, an effect commits only with its settle, only the newest run settles, and
 * when everything is quiet the job is done.
 *
 * Known to be bad:
 *   SETTLE_BY_ID   the settle compares the id only
 *   SPLIT_RESCUE   a rescuer looks first and writes later, without looking again
 *   NO_NONCE       the store loses its last writes (RESTORE), and only the epoch is compared
 */

#define WORKERS 3
#define DEATHS 2
#define LAPSES 2            /* leases that run out on the living; on the dead they always do */

mtype = { waiting, running, done };

mtype state = waiting;
byte epoch = 0;
byte nonce = 0;              /* of the claim that holds; drawn fresh, never repeated */
bool lease = false;

byte drawn = 0;
byte settled = 0;
byte effects = 0;
byte deaths = 0;
byte lapses = 0;
bool orphaned = false;       /* whoever holds the claim is dead */
byte latest = 0;             /* the nonce of the last claim the store made */

byte copy_epoch = 0;         /* a backup of the store, taken at some moment */
byte copy_nonce = 0;
mtype copy_state = waiting;

#ifdef SETTLE_BY_ID
#define FENCE(e, n) (state == running)
#else
#ifdef NO_NONCE
#define FENCE(e, n) (state == running && epoch == e)
#else
#define FENCE(e, n) (state == running && epoch == e && nonce == n)
#endif
#endif

#ifdef SPLIT_RESCUE
#define CLAIMABLE (state == waiting)
#else
#define CLAIMABLE (state == waiting || (state == running && !lease))
#endif

inline claim(e, n) {
    d_step {
        epoch = epoch + 1; drawn = drawn + 1; nonce = drawn; latest = drawn;
        state = running; lease = true; orphaned = false;
        e = epoch; n = nonce
    }
}

proctype Worker() {
    byte e = 0;
    byte n = 0;
idle:
    do
    :: atomic { CLAIMABLE -> claim(e, n) }
       if
       :: deaths < DEATHS ->                          /* killed before the settle: nothing is written */
          atomic { deaths++; orphaned = orphaned || n == nonce };
          goto idle
       :: skip                                       /* the body runs; its effect waits for the commit */
       fi;
       atomic {
           if
           :: FENCE(e, n) ->
              assert(n == latest);                   /* never a zombie's after another run took over */
              state = done; lease = false;
              settled++; effects++;
              assert(settled <= 1 && effects <= 1)
           :: else -> skip                           /* LOST: the transaction rolls back whole */
           fi
       }
    :: state == done -> break
    od
}

active proctype Time() {
    do
    :: atomic { state == running && lease && orphaned -> lease = false }
    :: atomic { state == running && lease && lapses < LAPSES -> lapses++; lease = false }
    :: state == done -> break
    od
}

#ifdef SPLIT_RESCUE
active proctype Rescuer() {
    do
    :: state == running && !lease -> state = waiting  /* two steps: meanwhile the run may have settled */
    :: state == done -> break
    od
}
#endif

#ifdef RESTORE
active proctype Disaster() {
    atomic { copy_state = state; copy_epoch = epoch; copy_nonce = nonce }
end:
    atomic {
        state != done ->                              /* a settle that is lost runs again: see the guarantees */
        state = copy_state; epoch = copy_epoch; nonce = copy_nonce; lease = false; latest = copy_nonce
    }
}
#endif

active proctype Quiet() {
    timeout -> assert(state == done && settled == 1)
}

init {
    byte i = 0;
    atomic {
        do
        :: i < WORKERS -> run Worker(); i++
        :: else -> break
        od
    }
}
