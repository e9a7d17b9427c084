"""What the commands can end with besides success."""


class CommandError(Exception):
    """What can go wrong without a fault in this program: its text alone is shown."""
