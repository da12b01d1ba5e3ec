-- rows: every periodic task of django-celery-beat with whichever schedule it has.
select t.*, c.minute, c.hour, c.day_of_month, c.month_of_year, c.day_of_week, c.timezone,
       i.every, i.period, k.clocked_time, s.event as solar_event
from django_celery_beat_periodictask t
left join django_celery_beat_crontabschedule c on c.id = t.crontab_id
left join django_celery_beat_intervalschedule i on i.id = t.interval_id
left join django_celery_beat_clockedschedule k on k.id = t.clocked_id
left join django_celery_beat_solarschedule s on s.id = t.solar_id
order by t.name
