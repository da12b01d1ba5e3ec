"""What the SQL stores share about following tables: the order of steps, with each store's own statements."""
