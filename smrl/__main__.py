"""`python -m smrl` is `smrl`."""

from smrl.cli.main import main

main()
