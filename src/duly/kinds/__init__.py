"""How each kind of work uses a job: what its run's end means, and what it asks for next."""
