"""Tasks that follow a table: what they declare, and every decision about them, as values.

Nothing here talks to a database. The stores that can hold a table of the user's (`stores/*/reactive`) lock,
read, ask these functions, and write what they say.
"""
