"""What holds in every store that keeps jobs in tables: how SQL is kept, haste, and rules for one job in hand.

SQLite and PostgreSQL lay out their tables differently and have statements of their own for many jobs at once.
What is decided about one job in hand is decided here, once, in words that both worlds understand.
"""
