"""Receipts in a PostgreSQL database."""
