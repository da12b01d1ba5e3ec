"""What a store allows: the least that a queue must say to it, with nothing around.

`enqueue` and `bulk` insert into one table or stream. The worker keeps a history as Duly does: one statement
(script, transaction) notes the end of the last batch and lends the next, 500 jobs at a time, which is Duly's
batch; nothing is decoded, fenced, limited or renewed. With the task `effect` each job has a commit of its own
for an insert and the end of the job. With the task `wake` only the way from a sender to a waiting process is
gone.
"""

BATCH = 500
CONNECTIONS = 20
"""For effects: as many as a worker of Duly has by default, one for each running body."""
