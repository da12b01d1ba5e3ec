"""What a piece of work answers: figures by the names of `figures.py`."""

Readings = dict[str, float]
