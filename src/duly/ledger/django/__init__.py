"""Receipts in a database of Django's settings."""
