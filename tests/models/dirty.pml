/* The dirty flag: a document changes while planners look and a run goes on.
 *
 * Writers commit versions; a trigger appends a change in the same transaction, which becomes visible at the
 * commit, in any order. Planners consume changes, lock the document's record first and read the row
 * afterwards. A run reads the row; a change that comes after its read makes one more run.
 *
 * Shows: when all is quiet, the last successful run saw the last committed version.
 *
 * Known to be bad:
 *   READ_BEFORE_LOCK   the planner reads the row, then locks the record: the older value stays for good
 *   CLEAR_AT_END       the flag is cleared when the run ends, not when it reads
 *   CURSOR             changes are followed by their ids instead of being consumed
 */

#define WRITERS 2

byte row = 0;                /* the committed version */
byte committed = 0;

/* the change log: number drawn before the commit, visible after it */
byte drawn = 0;
bool visible[WRITERS + 1];
byte cursor = 0;

bool locked = false;         /* the document's record */
byte planned = 0;            /* the version the record was planned for */
bool waiting = false;
bool running = false;
bool dirty = false;
byte seen = 0;               /* by the last successful run */

proctype Writer() {
    byte id = 0;
    atomic { drawn++; id = drawn }                    /* inside the transaction */
    atomic { committed++; row = committed; visible[id] = true }
}

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

inline consume(found) {
    d_step {
        found = false;
#ifdef CURSOR
        if
        :: cursor < 2 && visible[2] -> cursor = 2; found = true      /* everything up to what it saw */
        :: else ->
           if
           :: cursor < 1 && visible[1] -> cursor = 1; found = true
           :: else -> skip
           fi
        fi
#else
        if
        :: visible[1] -> visible[1] = false; found = true
        :: else ->
           if
           :: visible[2] -> visible[2] = false; found = true
           :: else -> skip
           fi
        fi
#endif
    }
}

#ifdef CURSOR
#define NEWS ((cursor < 1 && visible[1]) || (cursor < 2 && visible[2]))
#else
#define NEWS (visible[1] || visible[2])
#endif

proctype Planner() {
    byte version = 0;
    bool found = false;
end:
    do
    :: NEWS ->
       consume(found);
       if
       :: found ->
#ifdef READ_BEFORE_LOCK
          version = row;
          lock();
#else
          lock();
          version = row;
#endif
          d_step {
              if
              :: version != planned ->
                 planned = version;
                 if
                 :: running -> dirty = true
                 :: else -> waiting = true
                 fi
              :: else -> skip
              fi
          }
          unlock()
       :: else -> skip
       fi
    od
}

proctype Runner() {
    byte version = 0;
end:
    do
    :: atomic { !locked && waiting && !running -> waiting = false; running = true; dirty = false }
#ifdef READ_BEFORE_LOCK
       version = planned;                             /* the run trusts what was planned */
#else
       version = row;
#endif
       atomic {
           !locked ->
           running = false; seen = version;
#ifdef CLEAR_AT_END
           dirty = false
#else
           if
           :: dirty -> dirty = false; waiting = true
           :: else -> skip
           fi
#endif
       }
    od
}

active proctype Quiet() {
    timeout -> assert(seen == row)
}

init {
    byte i = 0;
    atomic {
        do
        :: i < WRITERS -> run Writer(); i++
        :: else -> break
        od;
        run Planner(); run Planner(); run Runner()
    }
}
