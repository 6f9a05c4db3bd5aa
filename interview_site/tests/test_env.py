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


@pytest.mark.parametrize("value", ["localhost", "300.1.1.1", "127.0.0.1:80", "::g", "224.0.0.1", "fe80::1%lo"])
def test_bind_must_be_an_address(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="is not an IP address"):
        env.address("FAULTLINE_X", "127.0.0.1")


@pytest.mark.parametrize(
    "value", ["http://host", "host:80", "host/path", "a b", "user@host", "..", "*", "-a", "x" * 64, "fe80::1%lo"]
)
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


def test_a_secret_file_that_is_empty_is_named(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("\n")
    monkeypatch.setenv("FAULTLINE_X_FILE", str(tmp_path / "key"))
    with pytest.raises(env.BadEnvironment, match="is empty"):
        env.secret("FAULTLINE_X")


def test_a_secret_file_that_is_not_text_is_named(monkeypatch, tmp_path):
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("FAULTLINE_X_FILE", str(tmp_path / "key"))
    with pytest.raises(env.BadEnvironment, match="it is not text"):
        env.secret("FAULTLINE_X")


@pytest.mark.parametrize(
    "value", ["nonsense", "mysql://a/b", "redis://:pw@[::1", "redis://h:99999", "redis:", "redis://"]
)
def test_a_url_has_a_known_scheme_and_a_host_and_its_value_is_never_shown(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="begins with redis://. Run: unset FAULTLINE_X") as caught:
        env.url("FAULTLINE_X", "redis://h", ["redis"])
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("value", ["redis://h:6379/0", "unix:///run/redis.sock?db=1"])
def test_a_url_is_taken_as_it_is(variable, value):
    variable(value)
    assert env.url("FAULTLINE_X", "redis://h", ["redis", "unix"]) == value


@pytest.mark.parametrize("value", ["Mars/X", "../../etc/passwd", "/etc/localtime", "Europe"])
def test_a_time_zone_is_known_to_the_machine(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="Run: export FAULTLINE_X=UTC"):
        env.time_zone("FAULTLINE_X", "UTC")


def test_a_relative_folder_counts_from_the_checkout_wherever_one_stands(variable, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    variable("state")
    assert env.folder("FAULTLINE_X", tmp_path) == env.BASE_DIR / "state"


def test_a_folder_of_an_unknown_person_is_named(variable, tmp_path):
    variable("~nobody-of-that-name/x")
    with pytest.raises(env.BadEnvironment, match="Run: unset FAULTLINE_X"):
        env.folder("FAULTLINE_X", tmp_path)


def test_a_public_host_is_in_lower_case_as_browsers_send_it(variable):
    variable("Interviews.Example.COM")
    assert env.host("FAULTLINE_X", "127.0.0.1") == "interviews.example.com"


def test_networks_are_addresses_and_networks_separated_by_commas(monkeypatch):
    monkeypatch.setenv("X", " 10.0.0.0/24, 127.0.0.1 ,::1,")
    assert env.networks("X") == ["10.0.0.0/24", "127.0.0.1", "::1"]
    monkeypatch.delenv("X")
    assert env.networks("X") == []


@pytest.mark.parametrize("value", ["*", "10.0.0.1/24", "proxy.example.com", "0.0.0.0/0", "::/0", "10.0.0.0/99"])
def test_a_network_that_is_none_or_everybody_is_refused(monkeypatch, value):
    monkeypatch.setenv("X", value)
    with pytest.raises(env.BadEnvironment, match="is not an address or a network"):
        env.networks("X")


@pytest.mark.parametrize(
    "value", ["Toolbox", "http://x/toolbox", "x/toolbox:", "x/toolbox@sha256:1", "a b", "-x", "x" * 301]
)
def test_an_image_is_a_name_with_tag_or_digest(variable, value):
    variable(value)
    with pytest.raises(env.BadEnvironment, match="is not the name of an image. Run: export FAULTLINE_X="):
        env.image("FAULTLINE_X")


@pytest.mark.parametrize("value", ["", "toolbox", "localhost:5000/a_b/toolbox:1.2", f"ghcr.io/x/y@sha256:{'0' * 64}"])
def test_names_of_images_are_taken(variable, value):
    variable(value)
    assert env.image("FAULTLINE_X") == value
