"""The systems that somebody might use instead, one adapter each, each in an environment of its own."""
