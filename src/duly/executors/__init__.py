"""Where bodies run: in threads, in child processes, and what stops them when their time is up.

Nothing here knows jobs, tasks or stores: callables and bytes go in, outcomes come out. This file imports
nothing, because every child process reads it before it can start.
"""
