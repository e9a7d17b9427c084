"""The whole way down and up again, three times; prints how long each took."""

import pytest

from tests.engine.stack import LiveStack

_TIMES = 3


@pytest.mark.long
def test_make_down_and_make_up_work_again_and_again(
    spare_stack: LiveStack, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for number in range(1, _TIMES + 1):
        up = spare_stack.up()
        result = spare_stack.job("mnist-gloo")
        assert result["state"] == "Succeeded", up
        again = spare_stack.up()
        down = spare_stack.down()
        lines.append(
            f"round {number}: up {up.seconds:.1f} s (training {result['duration_seconds']:.1f} s, "
            f"accuracy {result['accuracy']:.4f}), up again {again.seconds:.1f} s, "
            f"down {down.seconds:.1f} s"
        )
    with capsys.disabled():
        print("\n" + "\n".join(lines))  # noqa: T201 - the figures are what it is run for
