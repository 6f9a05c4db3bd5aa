from django.db import migrations, models

from sessions.events import seal


def seal_time_lines(apps, schema_editor):
    """Seal what was written before there were seals."""
    sessions = apps.get_model("interview_sessions", "InterviewSession")
    events = apps.get_model("interview_sessions", "SessionEvent")
    for session in sessions.objects.all():
        last = events.objects.filter(session=session).order_by("-seq").first()
        if last is not None:
            sessions.objects.filter(pk=session.pk).update(timeline_seal=seal(last.seq, last.hash))


class Migration(migrations.Migration):

    dependencies = [
        ("interview_sessions", "0002_quiet_time"),
    ]

    operations = [
        migrations.AddField(
            model_name="interviewsession",
            name="browser_key",
            field=models.CharField(blank=True, help_text="What the joined browser's cookie session must hold; new with each link.", max_length=43),
        ),
        migrations.AddField(
            model_name="interviewsession",
            name="timeline_seal",
            field=models.CharField(blank=True, help_text="HMAC over the newest event's number and hash; see sessions.events.", max_length=64),
        ),
        migrations.RunPython(seal_time_lines, migrations.RunPython.noop),
    ]
