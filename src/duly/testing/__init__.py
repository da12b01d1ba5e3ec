"""For tests of code that uses Duly."""
