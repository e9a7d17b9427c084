"""How the benchmark of the training compares: round by round, like with like."""

from tests.trainer.bench.report import Ratio, Row, table


def row(name: str, *speeds: float, blas: str = "OpenBLAS", precision: str = "fp32") -> Row:
    """Return a row with rounds of three seconds."""
    made = Row(name, 1, blas, precision)
    for speed in speeds:
        made.add(round(3 * speed), 3.0)
    return made


PLAIN = row("plain", 100, 50, 100)


def test_a_ratio_has_the_spread_of_its_rounds() -> None:
    ratio = Ratio(row("ours", 300, 200, 210), PLAIN)
    assert ratio.values == [3.0, 4.0, 2.1]
    assert ratio.line() == "| ours over plain | 3.00 | 2.10 | 4.00 | yes |  |"


def test_a_target_is_met_or_missed_by_the_median() -> None:
    ours = row("ours", 300, 200, 210)
    assert Ratio(ours, PLAIN, target=3.0).verdict == "3.0: met"
    assert Ratio(ours, PLAIN, target=3.1).verdict == "3.1: missed"


def test_what_another_precision_or_blas_reaches_meets_no_target() -> None:
    for other in (
        row("ours", 900, 900, 900, precision="bf16"),
        row("ours", 900, 900, 900, blas="MKL"),
    ):
        ratio = Ratio(other, PLAIN, target=3.0)
        assert not ratio.is_alike
        assert "not compared" in ratio.verdict


def test_two_ranks_are_compared_with_twice_one() -> None:
    assert Ratio(row("two", 180, 80, 160), PLAIN, times=2).values == [0.9, 0.8, 0.8]


def test_the_table_names_the_shortest_round() -> None:
    plain = row("plain", 100)
    plain.add(500, 5.0)
    assert "| mnist, rounds of 3.0 s and more |" in table("mnist", [plain], [])
    assert "| plain | 1 | OpenBLAS | fp32 | 800 | 100 | 100 | 100 |" in table("mnist", [plain], [])
