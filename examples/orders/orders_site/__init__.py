"""The project around the Orders application."""
