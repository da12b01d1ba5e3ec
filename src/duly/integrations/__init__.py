"""Duly inside other frameworks. Each module needs its framework, and is imported only by its users."""
