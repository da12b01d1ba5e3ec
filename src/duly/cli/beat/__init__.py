"""Rows of django-celery-beat as schedules of Duly: read, understood, written as code."""
