"""A Django project whose tasks Celery carries."""
