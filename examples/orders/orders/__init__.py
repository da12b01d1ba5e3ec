"""Leases, and what the cloud knows about them."""
