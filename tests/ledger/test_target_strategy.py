"""Target: the strategy for any aim, against Clarabel, certificates and what must follow."""

import numpy as np
import pytest
from certificates import Problem, by_clarabel, certify

import headwater as hw
from headwater.ledger.client_terms import ClientTerms, client_noise
from headwater.ledger.conformance import check_strategy

COUNTS = [100, 100, 400, 60]
ARRIVALS = [hw.Once(), hw.Once(), hw.Constant(4), hw.Constant(2)]
MEMORY = [hw.Keep(), hw.Keep(), hw.Fifo(4), hw.Fifo(6)]
PRICES = hw.Constants(c0=0.0, c1=1.0, few_samples=0.5, discrepancy=0.15)
HOLDINGS = hw.unroll(COUNTS, ARRIVALS, MEMORY, rounds=100)


def importance(strategy):
    return hw.Ledger.weigh(HOLDINGS, strategy).importance


def random_case(seed):
    random = np.random.default_rng(seed)
    alpha = random.dirichlet(np.ones(4)) * (np.arange(4) != random.integers(8))
    prices = 10 ** random.uniform(-2, 1, 3)
    return alpha / alpha.sum(), hw.Constants(0.0, *prices)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bound", ["paper", "sharp"])
def test_what_the_ledger_shows_is_what_another_solver_finds(seed, bound):
    """M − M_hist = 2 is the slack's square, which the exact noise is divided by."""
    alpha, prices = random_case(seed)
    strategy = hw.Target(alpha, prices, bound)
    found = strategy.importance(HOLDINGS)
    rounds = ClientTerms(HOLDINGS).round_shares(found)
    noise = np.array([0, 0, 1.0, 1.0]) if bound == "paper" else client_noise(HOLDINGS, rounds) / 2
    problem = Problem(
        np.array(COUNTS, float), noise, prices.c1, prices.few_samples, 2 * prices.discrepancy, alpha
    )
    value, _ = by_clarabel(problem)
    assert certify(problem, found).holds()
    assert importance(strategy) == pytest.approx(found, rel=1e-9)
    assert float(problem.value(found)) == pytest.approx(value, rel=1e-6)


def test_without_discrepancy_it_is_optimal():
    prices = hw.Constants(0.0, 2.0, 0.6, 0.0)
    for bound in ("paper", "sharp"):
        aimed = importance(hw.Target([0.25] * 4, prices, bound))
        assert aimed == pytest.approx(importance(hw.Optimal(0.3, bound)), rel=1e-9)


def test_with_a_large_discrepancy_everybody_stays_at_the_target():
    prices = hw.Constants(0.0, 1.0, 0.5, 1e3)
    assert importance(hw.Target([0.1, 0.2, 0.3, 0.4], prices)) == pytest.approx(
        [0.1, 0.2, 0.3, 0.4], rel=1e-12
    )


def test_without_a_target_every_client_matters_the_same():
    assert importance(hw.Target(constants=PRICES)) == pytest.approx(
        importance(hw.Target([0.25] * 4, PRICES)), rel=1e-12
    )


def test_a_client_that_never_holds_a_sample_is_no_part_of_the_target():
    late = hw.Window(90, 99, hw.Once())
    holdings = hw.unroll([10, 10, 10], [hw.Once(), hw.Once(), late], hw.Keep(), rounds=50)
    found = hw.Ledger.weigh(holdings, hw.Target(constants=PRICES)).importance
    assert found == pytest.approx([0.5, 0.5, 0.0])
    with pytest.raises(hw.InputError, match=r"client 2 is to matter 0\.2 but holds no sample"):
        hw.Ledger.weigh(holdings, hw.Target([0.4, 0.4, 0.2], PRICES))


def test_keeps_the_rules():
    check_strategy(hw.Target(constants=PRICES))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": [0.5, 0.4]}, r"Target\(alpha\) sums to 0.9"),
        ({"alpha": [1.5, -0.5]}, r"Target\(alpha\) of client 1 is -0.5"),
        ({"alpha": [True, False]}, "which is not a number"),
        ({"alpha": 0.5}, "give one number for each client"),
        ({"alpha": "half"}, r"Target\(alpha\)"),
        ({"constants": 0.15}, r"Target\(constants\): Constants"),
        ({"bound": "loose"}, r"Target\(bound\): 'paper' or 'sharp'; got 'loose'"),
    ],
)
def test_mistakes(settings, words):
    with pytest.raises(hw.InputError, match=words):
        hw.Target(**settings)


def test_mistakes_that_show_with_the_clients():
    with pytest.raises(hw.InputError, match="2 shares for 4 clients"):
        importance(hw.Target([0.5, 0.5], PRICES))
    with pytest.raises(hw.InputError, match="give the bound's prices"):
        importance(hw.Target())


def test_a_simulation_estimates_the_prices_by_itself():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    clients = [
        hw.Client(x[:20], y[:20]),
        hw.Client(x[20:], y[20:], arrivals=hw.Constant(4), memory=hw.Fifo(4)),
    ]
    model = torch.nn.Linear(3, 2)
    run = hw.simulate(model, clients, strategy=hw.Target(), rounds=10, learning_rate=0.1)
    prices = hw.estimate(model, clients, rounds=10).constants
    by_hand = hw.Ledger.weigh(run.ledger.holdings, hw.Target([0.5, 0.5], prices)).importance
    assert run.ledger.importance == pytest.approx(by_hand)
