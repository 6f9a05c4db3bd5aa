from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('faults', '0005_refused_credentials'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='cluster',
            name='activity_path',
        ),
    ]
