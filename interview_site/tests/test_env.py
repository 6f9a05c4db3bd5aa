"""Every bad value is one sentence that names the variable and the command that mends it."""

import pytest

from interview_site import env


@pytest.fixture
def variable(monkeypatch):
    return lambda value: monkeypatch.setenv("FAULTLINE_X", value)


@pytest.mark.parametrize("value", ["true", "1", "yes", "TRUE "])
def test_a_flag_is_true_or_false_and_nothing_else(variable, value):
    variable(value.strip())
    with pytest.raises(env.BadEnvironment, match="Run: export FAULTLINE_X="):
        env.flag("FAULTLINE_X")


def test_an_unset_flag_has_its_default():
    assert env.flag("FAULTLINE_X", default=True) is True


@pytest.mark.parametrize("value", ["0", "65536", "80a", "-1", "1e3", "٣", "9" * 5000])
def test_a_port_outside_its_range_is_refused(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="whole number from 1 to 65535"):
        env.number("FAULTLINE_X", 8000, low=1, high=65535)


@pytest.mark.parametrize("value", ["localhost", "300.1.1.1", "127.0.0.1:80", "::g"])
def test_bind_must_be_an_address(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="is not an IP address"):
        env.address("FAULTLINE_X", "127.0.0.1")


@pytest.mark.parametrize("value", ["http://host", "host:80", "host/path", "a b", "user@host"])
def test_a_public_host_is_bare(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="bare host name"):
        env.host("FAULTLINE_X", "127.0.0.1")


@pytest.mark.parametrize("value", ["interviews.example.com", "10.0.0.7", "::1"])
def test_names_and_addresses_are_hosts(variable, value):
    variable(value)
    assert env.host("FAULTLINE_X", "127.0.0.1") == value


def test_a_secret_can_lie_in_a_file(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("s3cret\n")
    monkeypatch.setenv("FAULTLINE_X_FILE", str(tmp_path / "key"))
    assert env.secret("FAULTLINE_X") == "s3cret"


def test_an_unreadable_secret_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("FAULTLINE_X_FILE", str(tmp_path / "missing"))
    with pytest.raises(env.BadEnvironment, match="Run: unset FAULTLINE_X_FILE"):
        env.secret("FAULTLINE_X")
