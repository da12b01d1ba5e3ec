"""Background work, duly done."""
