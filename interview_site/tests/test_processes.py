"""The supervisor's list."""

from interview_site import processes


def names():
    return [command.name for command in processes.commands()]


def test_one_machine_runs_every_process():
    assert names() == ["redis", "kubesim", "web", "worker", "observer"]


def test_a_redis_of_ones_own_is_not_started_twice(settings):
    settings.OWN_REDIS = False
    assert "redis" not in names()


def test_more_workers_are_more_lanes_of_one_process(settings):
    settings.WORKERS = 3
    assert [name for name in names() if name.startswith("worker")] == ["worker"]


def test_warnings_are_kept_out_of_a_persons_terminal():
    assert all("-W ignore" in command.shell for command in processes.commands() if command.name != "redis")


def test_bind_and_public_host_reach_every_server(settings):
    settings.BIND, settings.PUBLIC_HOST = "127.0.0.2", "interviews.example.com"
    shells = {command.name: command.shell for command in processes.commands()}
    assert "--bind 127.0.0.2" in shells["kubesim"]
    assert "--public-host interviews.example.com" in shells["kubesim"]
    assert "--host 127.0.0.2" in shells["web"]
    assert not any("127.0.0.1" in shell or "localhost" in shell for shell in shells.values())
