"""Which pods the internet is open for."""

from clusters.embedded import gateway


def test_a_jobs_pods_that_live_and_have_an_address_are_let_through() -> None:
    """An address of a pod that has ended may be another's already."""
    pods = [
        {"phase": "Running", "podIP": "10.244.0.5"},
        {"phase": "Pending", "podIP": "10.244.0.6"},
        {"phase": "Pending"},
        {"phase": "Succeeded", "podIP": "10.244.0.7"},
        {"phase": "Failed", "podIP": "10.244.0.8"},
        {},
    ]
    assert gateway.rules(pods) == (
        "flush set inet slipway jobs\nadd element inet slipway jobs { 10.244.0.5, 10.244.0.6 }\n"
    )
    assert gateway.rules([]) == "flush set inet slipway jobs\n"
