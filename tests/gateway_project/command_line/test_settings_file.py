"""The settings file gives what the environment does not have."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from gateway_project.command_line import program


@pytest.fixture
def load(tmp_path):
    """Return a function that loads files of these texts, and returns the variables."""

    def load(text: str, owner: str | None = None, *, as_owner: bool = False, **environ: str) -> dict[str, str]:
        (tmp_path / "gateway.env").write_text(text)
        if owner is not None:
            (tmp_path / "owner.env").write_text(owner)
        environ["GATEWAY_SETTINGS_FILE"] = str(tmp_path / "gateway.env")
        program.load_settings(environ, as_owner=as_owner)
        del environ["GATEWAY_SETTINGS_FILE"]
        return environ

    return load


def test_comments_and_empty_lines_are_no_variables(load):
    assert load("# A comment\n\n  # Another\nNAME=value\n") == {"NAME": "value"}


def test_a_value_is_the_rest_of_its_line_without_its_quotation_marks(load):
    lines = ["A=Model Gateway <gateway@example.com>", 'B="two words "', "C= it's ", "D=", "E=a=b#c", "F='\"'"]
    wanted = {"A": "Model Gateway <gateway@example.com>", "B": "two words ", "C": "it's", "D": "", "E": "a=b#c", "F": '"'}
    assert load("\n".join(lines)) == wanted


def test_the_environment_goes_before_the_file(load):
    assert load("NAME=file\nOTHER=file", NAME="environment") == {"NAME": "environment", "OTHER": "file"}


def test_only_a_command_of_the_owner_reads_the_role_that_owns_the_tables(load):
    assert load("DATABASE_URL=serves", "DATABASE_URL=owns") == {"DATABASE_URL": "serves"}
    assert load("DATABASE_URL=serves", "DATABASE_URL=owns", as_owner=True) == {"DATABASE_URL": "owns"}


@pytest.mark.parametrize("line", ["NAME", "export NAME=value", "NAME =value", "=value", "1NAME=value"])
def test_a_line_that_is_no_variable_is_named(load, tmp_path, line):
    with pytest.raises(ImproperlyConfigured) as refused:
        load(f"FIRST=1\n{line}\n")
    assert str(refused.value) == f"{tmp_path}/gateway.env, line 2: write NAME=value, without spaces around the name."


def test_an_open_quotation_mark_is_named_without_the_value(load, tmp_path):
    with pytest.raises(ImproperlyConfigured) as refused:
        load('SECRET="abc')
    assert str(refused.value) == f"{tmp_path}/gateway.env, line 1: the quotation mark of SECRET is not closed."


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ImproperlyConfigured) as refused:
        program.load_settings({"GATEWAY_SETTINGS_FILE": str(tmp_path / "none.env")})
    assert str(refused.value) == f"The settings file {tmp_path}/none.env cannot be read: No such file or directory."


def test_a_checkout_has_no_settings_file_of_its_own():
    environ: dict[str, str] = {}
    program.load_settings(environ)
    assert environ == {}
