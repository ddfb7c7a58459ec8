"""``python -m somf`` is the `somf` command."""

from somf.cli import main

main()
