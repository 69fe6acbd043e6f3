"""`python -m smrl` is `smrl`."""

from smrl.cli import main

main()
