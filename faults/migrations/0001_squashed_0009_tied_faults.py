"""All tables at once, for new databases. Those of earlier versions go on with the migrations that it stands for."""

import django.db.models.deletion
import django.db.models.functions.comparison
import django.utils.timezone
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('faults', '0001_initial'), ('faults', '0002_retries_and_rechecks'), ('faults', '0003_clusters_and_panic'), ('faults', '0004_preflight_and_one_panic_for_all'), ('faults', '0005_refused_credentials'), ('faults', '0006_no_activity_path'), ('faults', '0007_cluster_inventory'), ('faults', '0008_fault_injection_api'), ('faults', '0009_tied_faults')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Cluster',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.SlugField(max_length=63, unique=True)),
                ('tier', models.CharField(choices=[('practice', 'Practice (simulated, fresh for each session)'), ('dedicated', 'Dedicated (leased to one session at a time)'), ('shared', 'Shared (namespaces of its own for each session)')], max_length=10)),
                ('kubeconfig', models.TextField(blank=True, help_text='Encrypted; only faults.kube reads it.')),
                ('prometheus_url', models.URLField(blank=True, verbose_name='Prometheus address')),
                ('kept', models.BooleanField(default=False, help_text='Added by an admin: stays, with its kubeconfig, when a session gives it back.')),
                ('archived', models.BooleanField(default=False, help_text='Not offered for new sessions.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('released_at', models.DateTimeField(blank=True, help_text='When a practice cluster was dropped.', null=True)),
                ('refused_at', models.DateTimeField(blank=True, help_text='Since when it refuses the stored credentials; empty while it takes them.', null=True)),
                ('preflight_at', models.DateTimeField(blank=True, null=True, verbose_name='last preflight')),
                ('preflight_error', models.TextField(blank=True, help_text='For which reason sessions would fail here, as the last preflight found.')),
                ('inventory', models.JSONField(blank=True, editable=False, help_text='Nodes and API groups that the last preflight found.', null=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Lease',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120, unique=True)),
                ('holder', models.CharField(blank=True, max_length=80)),
                ('epoch', models.PositiveIntegerField(default=0)),
                ('until', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Scenario',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('slug', models.SlugField(max_length=63, unique=True)),
                ('archived', models.BooleanField(default=False, help_text='Archived scenarios cannot be picked for new sessions.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='ApiEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(max_length=40)),
                ('subject', models.CharField(blank=True, help_text='The fault, or what was to be one.', max_length=300)),
                ('outcome', models.CharField(help_text='done, or the code of the refusal.', max_length=40)),
                ('detail', models.TextField(blank=True)),
                ('cluster', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='api_events', to='faults.cluster')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Outbox',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job', models.CharField(help_text='Dotted path of the job function.', max_length=120)),
                ('args', models.JSONField(default=list, help_text='Row ids only.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('taken_at', models.DateTimeField(blank=True, help_text='When a worker began it.', null=True)),
                ('relays', models.PositiveSmallIntegerField(default=0, help_text='How often it was put into the queue.')),
            ],
            options={
                'verbose_name_plural': 'outbox',
                'ordering': ['id'],
                'indexes': [models.Index(condition=models.Q(('sent_at__isnull', True)), fields=['created_at'], name='outbox_unsent')],
            },
        ),
        migrations.CreateModel(
            name='ScenarioVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('number', models.PositiveIntegerField()),
                ('digest', models.CharField(help_text='SHA-256 over the sorted file names and their contents.', max_length=64)),
                ('files', models.JSONField(help_text='Path inside the pack -> text.')),
                ('title', models.CharField(max_length=200)),
                ('category', models.CharField(max_length=80)),
                ('difficulty', models.CharField(max_length=20)),
                ('minutes', models.PositiveSmallIntegerField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('scenario', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='faults.scenario')),
            ],
            options={
                'ordering': ['scenario__slug', '-number'],
                'constraints': [models.UniqueConstraint(fields=('scenario', 'number'), name='scenario_version_number_once'), models.UniqueConstraint(fields=('scenario', 'digest'), name='scenario_version_digest_once')],
            },
        ),
        migrations.CreateModel(
            name='FaultRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('purpose', models.CharField(choices=[('environment', "Environment (namespaces, candidate's identity)"), ('fault', 'Fault'), ('api', 'Fault injected through the API')], default='fault', max_length=12)),
                ('namespaces', models.JSONField(default=dict, help_text="The pack's name of a namespace -> the real one.")),
                ('parameters', models.JSONField(default=dict, help_text="The pack's parameters, resolved for this run.")),
                ('seed', models.BigIntegerField(default=0)),
                ('status', models.CharField(choices=[('planned', 'Queued'), ('injecting', 'Injecting'), ('active', 'Active'), ('resolved', 'Resolved'), ('reverting', 'Reverting'), ('reverted', 'Reverted'), ('failed', 'Failed'), ('quarantined', 'Quarantined')], default='planned', max_length=12)),
                ('phase', models.CharField(blank=True, help_text='What it is doing now, in words.', max_length=60)),
                ('detail', models.TextField(blank=True, help_text='The last line the phase reported.')),
                ('error', models.TextField(blank=True)),
                ('manual_command', models.TextField(blank=True, help_text='What a person must run when quarantined.')),
                ('epoch', models.PositiveIntegerField(default=0, help_text='Fences off a worker that lost its lease.')),
                ('lease_holder', models.CharField(blank=True, max_length=80)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('deadline', models.DateTimeField(blank=True, help_text='Reverted at this time whatever happens.', null=True)),
                ('mirrored_deadline', models.DateTimeField(blank=True, help_text='The deadline that the copy of the journal in the cluster knows.', null=True)),
                ('attempts', models.PositiveIntegerField(default=0, help_text='Tries that failed since the last that did not.')),
                ('tried_at', models.DateTimeField(blank=True, help_text='When the last try failed.', null=True)),
                ('next_try_at', models.DateTimeField(blank=True, help_text='Not tried again before.', null=True)),
                ('settling_at', models.DateTimeField(blank=True, help_text='Since when deleted objects do not go.', null=True)),
                ('looked_seconds', models.FloatField(default=0, help_text='For how long the symptom could be looked for.')),
                ('fingerprint_before', models.JSONField(blank=True, null=True)),
                ('residue', models.JSONField(blank=True, help_text='Differences left after the revert; [] is clean.', null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('injecting_at', models.DateTimeField(blank=True, null=True)),
                ('injected_at', models.DateTimeField(blank=True, null=True)),
                ('symptom_at', models.DateTimeField(blank=True, help_text='When the symptom was confirmed.', null=True)),
                ('reverting_at', models.DateTimeField(blank=True, null=True)),
                ('reverted_at', models.DateTimeField(blank=True, null=True)),
                ('reverted_version', models.PositiveBigIntegerField(default=0, help_text="The cluster's resourceVersion then; one that is older now came back from a snapshot.")),
                ('dropped', models.BooleanField(default=False, help_text='Not reverted: it went with its cluster.')),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='faults.cluster')),
                ('scenario_version', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='faults.scenarioversion')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('purpose__in', ['environment', 'api']), ('scenario_version__isnull', False), _connector='OR'), name='fault_run_has_a_scenario')],
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('index', models.PositiveSmallIntegerField()),
                ('schema', models.PositiveSmallIntegerField(default=1, help_text="Version of the undo's format.")),
                ('kind', models.CharField(help_text='The injector: manifest, patch, ...', max_length=40)),
                ('target', models.JSONField(help_text='apiVersion, kind, namespace, name.')),
                ('undo', models.JSONField(help_text='What reverting needs: before-image, injected fields.')),
                ('target_uid', models.CharField(blank=True, max_length=64)),
                ('status', models.CharField(choices=[('recorded', 'Undo recorded'), ('applied', 'Applied'), ('reverted', 'Reverted')], default='recorded', max_length=10)),
                ('epoch', models.PositiveIntegerField(default=0)),
                ('recorded_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('applied_at', models.DateTimeField(blank=True, null=True)),
                ('reverted_at', models.DateTimeField(blank=True, null=True)),
                ('outcome', models.CharField(blank=True, help_text='What reverting found and did.', max_length=200)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='faults.faultrun')),
            ],
            options={
                'ordering': ['run', 'index'],
                'constraints': [models.UniqueConstraint(fields=('run', 'index'), name='step_index_once_per_run')],
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(help_text='Who uses it, and for what.', max_length=100)),
                ('token_hash', models.CharField(editable=False, help_text='SHA-256.', max_length=64, unique=True)),
                ('scopes', models.CharField(help_text='Separated by spaces.', max_length=200)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='api_tokens', to='faults.cluster')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('scopes', ''), _negated=True), name='api_token_has_a_scope'), models.CheckConstraint(condition=models.Q(('expires_at__gt', models.F('created_at'))), name='api_token_expires_after_its_making')],
            },
        ),
        migrations.CreateModel(
            name='ClusterLease',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('holder', models.UUIDField(help_text="The session's UUID.")),
                ('exclusive', models.BooleanField(help_text='Nobody else may have the cluster meanwhile.')),
                ('taken_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('given_back_at', models.DateTimeField(blank=True, null=True)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='leases', to='faults.cluster')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('exclusive', True), ('given_back_at__isnull', True)), fields=('cluster',), name='cluster_leased_to_one_session'), models.UniqueConstraint(condition=models.Q(('given_back_at__isnull', True)), fields=('cluster', 'holder'), name='cluster_leased_once_each')],
            },
        ),
        migrations.CreateModel(
            name='InjectedFault',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fault_id', models.CharField(max_length=80, unique=True)),
                ('type', models.CharField(help_text='gpu_xid_79, network_frontend_worker, ...', max_length=60)),
                ('target', models.CharField(max_length=300)),
                ('node', models.CharField(blank=True, help_text="Of a GPU's fault.", max_length=253)),
                ('gpu', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('details', models.JSONField(default=dict, help_text='The request, as it was carried out.')),
                ('requested_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('error', models.TextField(blank=True, help_text='For which reason it could not be injected.')),
                ('ended_by', models.CharField(blank=True, help_text='Who took it back; empty: its time was over.', max_length=150)),
                ('recovered_at', models.DateTimeField(blank=True, null=True)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='injected_faults', to='faults.cluster')),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='injected_fault', to='faults.faultrun')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('gpu__isnull', True), ('node', '')), models.Q(models.Q(('node', ''), _negated=True), ('gpu__isnull', False)), _connector='OR'), name='injected_fault_names_node_and_gpu'), models.UniqueConstraint(condition=models.Q(('gpu__isnull', False), ('recovered_at__isnull', True)), fields=('cluster', 'node', 'gpu'), name='injected_fault_once_per_gpu')],
            },
        ),
        migrations.CreateModel(
            name='Panic',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('engaged_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('engaged_by', models.CharField(max_length=150)),
                ('lifted_at', models.DateTimeField(blank=True, null=True)),
                ('lifted_by', models.CharField(blank=True, max_length=150)),
                ('cluster', models.ForeignKey(blank=True, help_text='Empty: all.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='panics', to='faults.cluster')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('lifted_at__isnull', True)), fields=('cluster',), name='panic_engaged_once_per_cluster'), models.UniqueConstraint(django.db.models.functions.comparison.Coalesce('cluster', models.Value(0)), condition=models.Q(('cluster__isnull', True), ('lifted_at__isnull', True)), name='panic_engaged_once_for_all')],
            },
        ),
    ]
