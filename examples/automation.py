"""A stack from its file to a result and away again, by Pulumi's Automation API."""

import sys

from pulumi.automation import create_or_select_stack

# In the environment of `make env`: python examples/automation.py ~/slipway dev
stack = create_or_select_stack(sys.argv[2], work_dir=sys.argv[1])
try:
    print(stack.up(on_output=print).outputs["jobs"].value)
finally:
    stack.destroy(on_output=print)
