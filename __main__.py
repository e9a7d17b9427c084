"""The Pulumi program; `infra/program.py` tells the whole story."""

from infra.program import main

main()
