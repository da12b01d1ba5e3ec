"""Receipts in a SQLite file."""
