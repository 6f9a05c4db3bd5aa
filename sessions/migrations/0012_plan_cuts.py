from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('interview_sessions', '0011_staged_parts'),
    ]

    operations = [
        migrations.AddField(
            model_name='planversion',
            name='cuts',
            field=models.JSONField(blank=True, default=list, help_text='Shorter forms: [{"minutes": int, "parts": [int or null]}]; a part with null is left out.'),
        ),
    ]
