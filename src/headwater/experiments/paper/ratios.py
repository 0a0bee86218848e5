"""The ratio c2/c1 of a run, estimated as the paper does and measured, kept beside the results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

from headwater.errors import InputError
from headwater.experiments.experiment import Experiment
from headwater.experiments.many_cores import Progress, each_in_a_process
from headwater.learning.estimation import Estimate, estimate, measure


@dataclass(frozen=True)
class Ratios:
    """What the historical samples of one seed tell.

    Attributes:
        gradient_norm: G of the paper's appendix.
        diameter: D of the paper's appendix.
        loss_bound: B of the paper's appendix.
        parameters: d, the number of parameters.
        estimated: c2/c1 by the paper's approximation.
        measured: c2/c1 with variance and discrepancy measured; None where nobody asked, or where
            the clients have too few samples.
        measured_error: The standard error of ``measured``.
        gradient_variance: σ0², measured.
        discrepancy: The largest disc(P_m, P_m'), measured.
    """

    gradient_norm: float
    diameter: float
    loss_bound: float
    parameters: int
    estimated: float
    measured: float | None = None
    measured_error: float | None = None
    gradient_variance: float | None = None
    discrepancy: float | None = None


NO_RATIOS = Ratios(0.0, 0.0, 0.0, 0, 0.0)
"""For lines that ask for none."""


def find_ratios(
    experiment: Experiment, seeds: int, measured: bool, processes: int | None
) -> list[Ratios]:
    """The ratios of all seeds: those in the log, or else estimated now and put there.

    Args:
        experiment: Task, settings and log.
        seeds: For 0, 1, … up to here.
        measured: Measure variance and discrepancy too, which takes longer.
        processes: How many at once; None stands for one per core.
    """
    data = experiment.shared["data"]
    known = {
        line["seed"]: line
        for line in experiment.log.read("estimate")
        if line["data"] == data and (line["with_measurement"] or not measured)
    }
    todo = [seed for seed in range(seeds) if seed not in known]

    def work(place: int, _: Progress) -> Ratios:
        found = _estimate(experiment, todo[place], measured)
        about = {"seed": todo[place], "data": data, "with_measurement": measured}
        experiment.log.append("estimate", {**about, **asdict(found)})
        return found

    new = each_in_a_process(work, [f"estimate of seed {s}" for s in todo], processes=processes)
    names = [field.name for field in fields(Ratios)]
    found = {s: Ratios(**{name: line[name] for name in names}) for s, line in known.items()}
    found |= dict(zip(todo, new, strict=True))
    return [found[seed] for seed in range(seeds)]


def _estimate(experiment: Experiment, seed: int, measured: bool) -> Ratios:
    task, setup = experiment.task, experiment.setup
    federation, model = task.split(setup.historical, setup.rounds, seed).final, task.model(seed)
    if measured:
        try:
            found = measure(model, federation, seed=seed, rounds=setup.rounds)
        except InputError:
            pass  # one sample a client, as with the synthetic task at 5 %, has no variance
        else:
            return replace(
                _ratios(found.estimate),
                measured=found.ratio.value,
                measured_error=found.ratio.error,
                gradient_variance=found.gradient_variance.value,
                discrepancy=found.discrepancy.value,
            )
    return _ratios(estimate(model, federation, seed=seed, rounds=setup.rounds))


def _ratios(paper: Estimate) -> Ratios:
    return Ratios(
        paper.gradient_norm, paper.diameter, paper.loss_bound, paper.parameters, paper.ratio
    )
