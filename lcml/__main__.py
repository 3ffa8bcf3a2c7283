"""`python -m lcml` is the `lcml` program."""

from lcml.cli import main

main()
