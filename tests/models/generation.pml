/* Generation, replace, delete: one key, a perpetual task, workers that settle late, and users who change it.
 *
 * A cycle that ends says Again; a user replaces the timing, or deletes the key and makes it anew. The newest
 * acknowledged request must stand, whatever an older run says at its end.
 *
 * Known to be bad:
 *   NO_CHECK            Again is written without comparing generations
 *   RESTART_AT_DELETE   the counter begins anew when the key is deleted: an ABA
 *   DRAW_EARLY          the generation is drawn before the key's lock is taken
 */

#define REQUESTS 4

bool exists = false;
byte generation = 0;         /* of the job that stands for the key */
byte timing = 0;             /* which request's timing is in force */
byte counter = 0;            /* store-wide, rises only */
byte asked = 0;              /* requests so far, so that each has a name */
byte newest = 0;             /* the newest acknowledged request */
bool wanted = false;         /* false after a delete */
byte top = 0;                /* the highest generation acknowledged for this key */

#ifdef NO_CHECK
#define CURRENT(g) true
#else
#define CURRENT(g) (exists && generation == g)
#endif

proctype Worker() {
    byte g = 0;
    byte t = 0;
    byte cycles = 0;
    do
    :: atomic { cycles < 2 && exists -> g = generation; t = timing; cycles++ }
       atomic {                                       /* the body took its time; now it says Again */
           if
           :: CURRENT(g) -> exists = true; generation = g; timing = t
           :: else -> skip
           fi
       }
    :: cycles == 2 || (!exists && asked == REQUESTS) -> break
    od
}

proctype User() {
    byte g = 0;
    byte left = REQUESTS / 2;
    do
    :: left > 0 ->                                    /* enqueue with replace */
       left--;
#ifdef DRAW_EARLY
       atomic { counter++; g = counter };             /* another user may pass in between */
       atomic {
#else
       atomic {                                       /* drawn while the key is locked */
           counter++; g = counter;
#endif
           assert(g > top);
           top = g; asked++; newest = asked; wanted = true;
           exists = true; generation = g; timing = asked
       }
    :: left > 0 ->                                    /* delete */
       left--;
       atomic {
           asked++; exists = false; wanted = false;
#ifdef RESTART_AT_DELETE
           counter = 0; top = 0
#endif
       }
    :: left == 0 -> break
    od
}

active proctype Quiet() {
    timeout -> assert(exists == wanted);
    assert(!exists || timing == newest)
}

init {
    atomic { run User(); run User(); run Worker(); run Worker() }
}
