"""The pytest plugin that comes with Duly."""
