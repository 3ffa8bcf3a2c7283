"""Commands run in this process."""

from typer.testing import CliRunner, Result

from lcml.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def output(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exc_info)
    return result.stdout


def refused(*arguments: object) -> str:
    """The one line of a command that fails with exit code 2 and no output."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return line
